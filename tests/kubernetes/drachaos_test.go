//go:build kubernetes

package kubernetes

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// rounds is how many changes claimsSurvive makes; CLAIM_CHANGES has another number.
const rounds = 60

var killable = []string{"gpu-dra-driver", "gpu-dra-driver", "kubelet", "kube-apiserver", "kube-scheduler"}

// claimsSurvive: pods come and go while parts are killed. No GPU is in two pods, and in the end
// none is lost.
func claimsSurvive(t *testing.T) {
	n := rounds
	if text := os.Getenv("CLAIM_CHANGES"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	claimable(t, gpus)
	var live []string
	made, killed, ran := 0, map[string]int{}, map[string]bool{}
	t.Cleanup(func() {
		for _, name := range live {
			endQuietly(t, name)
		}
	})
	for range n {
		switch roll := r.IntN(6); {
		case roll == 0:
			p := parts[killable[r.IntN(len(killable))]]
			p.stop(t, syscall.SIGKILL)
			p.start(t)
			apiServerIsReady(t)
			killed[p.name]++
		case roll < 3 && len(live) > 0:
			i := r.IntN(len(live))
			endQuietly(t, live[i])
			live = slices.Delete(live, i, i+1)
		case len(live) < gpus+2: // more than there are GPUs
			name := fmt.Sprint("pod-", made)
			made++
			live = append(live, name)
			post(t, claims, "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: "+name+"}, spec: {devices: {requests: ["+
				request(fmt.Sprint(", count: ", 1+r.IntN(2)))+"]}}}")
			createClaiming(t, name, name)
		}
		for _, user := range exclusive(t, live) {
			ran[user] = true
		}
	}
	t.Logf("%d changes, %d pods, %d of them seen with GPUs, killed: %v", n, made, len(ran), killed)
	require.NotEmpty(t, ran)
	for len(live) > 0 {
		endQuietly(t, live[0])
		live = live[1:]
	}
	for i := range gpus {
		claimedBy(t, i, "")
	}
	offersClaims(t, gpus)
	claim(t, "all", request(fmt.Sprint(", count: ", gpus)), "")
	claimingPod(t, "all", "all")
	require.Equal(t, nodes(0, 1, 2, 3), opened(t, "all"))
}

// exclusive returns the pods by the nodes that they opened, no node twice. A pod that has opened
// GPUs holds their leases.
func exclusive(t *testing.T, live []string) (users map[string]string) {
	t.Helper()
	users = map[string]string{}
	for _, name := range live {
		status, said, err := call(http.MethodGet, pods+"/"+name+"/log", "")
		if err != nil || status != http.StatusOK || !strings.HasSuffix(said, "done\n") {
			continue // it waits for a GPU, or the kubelet starts
		}
		for _, node := range strings.Fields(strings.TrimSuffix(said, "done\n")) {
			if node == "/dev/kfd" {
				continue
			}
			require.Empty(t, users[node], "%s is in %s too", node, name)
			users[node] = name
		}
	}
	leases := lease.Leases{Dir: lease.DefaultDir}
	for i := range gpus {
		leases.GPUs = append(leases.GPUs, addressOf(t, i))
	}
	states, _, err := leases.Read()
	require.NoError(t, err)
	for i, s := range states {
		if user := users[render(i)]; user != "" {
			is, claimed := s.Claim()
			require.True(t, s.Held && claimed && is.Name == user, "%s is in %s and leased to %s", render(i), user, s.Container)
		}
	}
	return users
}

// endQuietly deletes a pod and its claim, and waits until both are deleted.
func endQuietly(t *testing.T, name string) {
	t.Helper()
	end(t, name)
	endClaim(t, name)
}
