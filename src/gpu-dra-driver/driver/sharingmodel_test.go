package driver

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Claims alone and shared, pods of the plugin, restarts and other options come in any order. A
// GPU has holders of one kind, and each claim that was prepared keeps it until it is unprepared.
func TestSharedAndExclusiveClaimsAreNeverMixed(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	root := hosttest.ManyGPUs(t, 2)
	devices := []string{device0, device1}
	d := startedSharing(t, root, "0")
	type holder struct {
		claim  *resourceapi.ResourceClaim
		shared bool
	}
	has := map[string][]holder{} // by device
	seen := map[string]int{}
	for n := range 200 {
		i := r.IntN(2)
		device := devices[i]
		switch r.IntN(6) {
		case 0, 1:
			allocated, shared := claimOfGPUs, r.IntN(3) > 0
			if shared {
				allocated = sharing
			}
			c := allocated(types.UID(strconv.Itoa(n)), device)
			may := !slices.ContainsFunc(has[device], func(h holder) bool { return h.claim == nil || !shared || !h.shared })
			err := prepared(t, d, c).Err
			require.Equal(t, may, err == nil, "step %d: %v", n, err)
			if may {
				has[device] = append(has[device], holder{c, shared})
			}
			seen["claim "+strconv.FormatBool(may)]++
		case 2, 3:
			if len(has[device]) > 0 && has[device][0].claim != nil {
				at := r.IntN(len(has[device]))
				unprepare(t, d, has[device][at].claim)
				has[device] = slices.Delete(has[device], at, at+1)
				d.turn(context.Background())
				seen["end"]++
			}
		case 4:
			if d.seen.States[i].Held && len(has[device]) > 0 && has[device][0].claim == nil {
				require.NoError(t, d.seen.Leases.ReleasePod([]int{i}))
				has[device] = nil
			} else if err := d.seen.Leases.HoldForPod("a/b/c", []int{i}, nil); len(has[device]) == 0 {
				require.NoError(t, err)
				has[device] = []holder{{}}
			} else {
				require.Error(t, err)
			}
		case 5:
			d = startedSharing(t, root, []string{"0", "1", "all"}[r.IntN(3)])
		}
		d.turn(context.Background())
		for i, device := range devices {
			require.Equal(t, len(has[device]) > 0, d.seen.States[i].Held, "step %d", n)
			var claims int
			for _, h := range has[device] {
				if h.claim != nil {
					claims++
					require.NoError(t, prepared(t, d, h.claim).Err, "step %d: again", n)
				}
			}
			require.Len(t, d.claimsOf(i), claims, "step %d", n)
		}
	}
	require.Greater(t, seen["claim true"], 10)
	require.Greater(t, seen["claim false"], 10)
	require.Greater(t, seen["end"], 10)
}
