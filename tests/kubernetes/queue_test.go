//go:build kubernetes

package kubernetes

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// queuedPod holds what a pod of the queue showed.
type queuedPod struct {
	name       string
	phase      string
	reason     string
	gpu        int // -1 until the pod runs
	began      time.Time
	leased     bool // the lease of its GPU is the pod's
	exitStatus int  // -1 until the test ends the pod
}

// queue holds pods that each have one GPU until the test ends them.
type queue struct {
	folder  string // where pods show their GPUs, and find how to end
	members []member
	pods    []*queuedPod
}

// selected restricts a request to the pods of the queue.
const selected = "?labelSelector=queue%3Dpromise"

// job shows the GPUs that it opens in a file with the pod's name, and then waits.
const job = `for d in /dev/dri/renderD*; do if (: 3<>"$d"); then echo "$d"; fi; done >/gate/$0.open
/bin/busybox mv /gate/$0.open /gate/$0.began
until [ -e /gate/$0.end ]; do /bin/busybox sleep 0.2; done
: >/gate/$0.ended
read status </gate/$0.end
exit "$status"
`

// until looks at the pods until a condition holds. It waits on while pods end.
func (q *queue) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for done := false; !done; {
		before := q.left()
		eventually(t, what, func() (string, bool) {
			q.look(t)
			done = is()
			return q.describe(), done || q.left() < before
		})
	}
}

// left returns how many pods have neither failed nor been ended by the test.
func (q *queue) left() (n int) {
	for _, p := range q.pods {
		if p.exitStatus < 0 && p.phase != "Failed" {
			n++
		}
	}
	return n
}

func (q *queue) describe() string {
	var b strings.Builder
	for _, p := range q.pods {
		fmt.Fprintf(&b, "%+v\n", *p)
	}
	return b.String()
}

// look reads which pods run, and which of them hold their leases.
func (q *queue) look(t *testing.T) {
	t.Helper()
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   podStatus
		}
	}
	get(t, pods+selected, &list)
	phases := map[string]podStatus{}
	for _, i := range list.Items {
		phases[i.Metadata.Name] = i.Status
	}
	for _, p := range q.pods {
		p.phase, p.reason = phases[p.name].Phase, phases[p.name].Reason
		file := filepath.Join(q.folder, p.name+".began")
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || p.leased {
			continue
		}
		require.NoError(t, err)
		if p.gpu < 0 {
			_, err = fmt.Sscanf(string(data), "/dev/dri/renderD%d\n", &p.gpu)
			require.NoError(t, err, "%s opens one GPU: %s", p.name, data)
			p.gpu -= 128
			require.Equal(t, render(p.gpu)+"\n", string(data), p.name)
			p.began = timeOf(t, file)
		}
		p.leased = q.holds(t, p)
	}
}

// holds reports whether the lease of the pod's GPU, on its node, is the pod's.
func (q *queue) holds(t *testing.T, p *queuedPod) bool {
	t.Helper()
	leases := lease.Leases{Dir: q.members[p.gpu/2].root.Path(lease.DefaultDir), GPUs: []string{addressOf(t, p.gpu)}}
	states, _, err := leases.Read()
	if err != nil || !states[0].Held {
		return false
	}
	if is, claimed := states[0].Claim(); claimed {
		return strings.HasPrefix(is.Name, p.name+"-gpu-")
	}
	return states[0].Container == "default/"+p.name+"/work"
}

// end lets a pod end with an exit status.
func (q *queue) end(t *testing.T, p *queuedPod, status int) {
	t.Helper()
	file := filepath.Join(q.folder, p.name)
	require.NoError(t, os.WriteFile(file, fmt.Appendln(nil, status), 0o644))
	require.NoError(t, os.Rename(file, file+".end"))
	p.exitStatus = status
}

// timeOf returns when a pod wrote a file.
func timeOf(t *testing.T, file string) time.Time {
	t.Helper()
	st, err := os.Stat(file)
	require.NoError(t, err)
	return st.ModTime()
}

func (q *queue) ended(t *testing.T, p *queuedPod) time.Time {
	t.Helper()
	return timeOf(t, filepath.Join(q.folder, p.name+".ended"))
}

// remove deletes the pods and waits until the nodes have ended them and no GPU is leased.
func (q *queue) remove(t *testing.T) {
	t.Helper()
	_, answer, err := call(http.MethodDelete, pods+selected+"&gracePeriodSeconds=1", "")
	require.NoError(t, err, answer)
	eventually(t, "the pods are deleted", func() (string, bool) {
		q.look(t)
		for _, p := range q.pods {
			if p.phase != "" {
				return q.describe(), false
			}
		}
		return "", true
	})
	for i := range gpus {
		q.members[i/2].held(t, i, "")
	}
}
