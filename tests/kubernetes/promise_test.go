//go:build kubernetes

package kubernetes

import (
	"encoding/json"
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

	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// selected is the pods of the queue alone.
const selected = "?labelSelector=queue%3Dpromise"

const (
	queuedPods = 40
	podsBefore = 10               // so many succeed before the sign
	sickGPU    = 2                // the first of the second node
	noticed    = 20 * time.Second // after the sign no pod begins on the GPU
	met        = 134              // the exit status of a pod with a sick GPU
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

// job shows the GPUs that it opens in a file with the pod's name, and then waits.
const job = `for d in /dev/dri/renderD*; do if (: 3<>"$d"); then echo "$d"; fi; done >/gate/$0.open
/bin/busybox mv /gate/$0.open /gate/$0.began
until [ -e /gate/$0.end ]; do /bin/busybox sleep 0.2; done
: >/gate/$0.ended
read status </gate/$0.end
exit "$status"
`

// The promise with pods of the device plugin and with pods that claim GPUs: 40 pods are queued,
// two nodes have two GPUs each, and one GPU falls sick. Its owner finds the sign.
func TestSickGPUFailsNoSecondPod(t *testing.T) {
	need(t)
	containerd := program("containerd", "containerd")
	t.Run("of the device plugin", func(t *testing.T) {
		newCluster(t, containerd)
		q := newQueue(t, first, newSecond(t, containerd))
		for _, m := range q.members {
			m.newPart(t, "gpu-device-plugin", filepath.Join(dir, "gpu-device-plugin"), "--devices=cdi")
			m.offers(t, 2)
		}
		q.keepsThePromise(t, "resources: {limits: {amd.com/gpu: 1}}", "", func() { q.members[1].offers(t, 1) })
	})
	t.Run("with claims", func(t *testing.T) {
		newCluster(t, containerd)
		q := newQueue(t, first, newSecond(t, containerd))
		startControllers(t)
		applyManifest(t, func(kind string) bool { return kind != "DaemonSet" })
		for _, m := range q.members {
			m.newPart(t, "gpu-dra-driver", filepath.Join(dir, "gpu-dra-driver"), "--node-name="+m.name, "--kubeconfig="+m.credentials(t))
			m.offersClaims(t, 2)
		}
		const templates = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
		t.Cleanup(func() {
			_, answer, err := call(http.MethodDelete, templates+"/one", "")
			require.NoError(t, err, answer)
		})
		post(t, templates, "{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: one}, spec: {spec: {devices: {requests: ["+request("")+"]}}}}")
		q.keepsThePromise(t, "resources: {claims: [{name: gpu}]}", ", resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]",
			func() { q.members[1].offersClaims(t, 1) })
	})
}

// newQueue makes both nodes units of two GPUs, with the owners that watch them.
func newQueue(t *testing.T, members ...member) *queue {
	t.Helper()
	q := &queue{folder: t.TempDir(), members: members}
	changeFile(t, 3, "ras/umc_err_count", "ue: 0\nce: 0\n") // the fixture's is sick
	changeFile(t, 3, "ras/gpu_vram_bad_pages", "")
	for i, m := range members {
		m.configure(t, 2*i, 2*i+2)
		m.newPart(t, "gpu-owner", filepath.Join(dir, "rocm-exporter"), "write-gpus", role.GPUReport, "--", filepath.Join(dir, "dispatch"), "gpu", "watch")
	}
	return q
}

// changeFile writes a file of a GPU in sysfs, until the test ends.
func changeFile(t *testing.T, gpu int, name, text string) {
	t.Helper()
	link, err := filepath.EvalSymlinks(filepath.Join(dir, "sys/bus/pci/devices", addressOf(t, gpu)))
	require.NoError(t, err)
	file := filepath.Join(link, name)
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.WriteFile(file, before, 0o644)) })
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644)) // in place, as the kernel shows it
}

// keepsThePromise queues pods with this request for a GPU. leaves waits until the sick
// GPU is no longer offered.
func (q *queue) keepsThePromise(t *testing.T, request, more string, leaves func()) {
	t.Cleanup(func() { q.remove(t) })
	for i := range queuedPods {
		p := &queuedPod{name: fmt.Sprintf("queued-%d", i), gpu: -1, exitStatus: -1}
		q.pods = append(q.pods, p)
		command, err := json.Marshal([]string{"/bin/sh", "-c", job, p.name})
		require.NoError(t, err)
		apply(t, "{apiVersion: v1, kind: Pod, metadata: {name: "+p.name+", labels: {queue: promise}}, spec: {restartPolicy: Never, "+
			"containers: [{name: work, image: busybox, command: "+string(command)+", "+request+", volumeMounts: [{name: gate, mountPath: /gate}]}], "+
			"volumes: [{name: gate, hostPath: {path: "+q.folder+"}}]"+more+"}}")
	}
	var sick *queuedPod
	q.until(t, "a pod runs on the GPU that falls sick", func() bool {
		ended := 0
		for _, p := range q.pods {
			switch {
			case p.exitStatus >= 0:
				ended++
			case p.leased && p.gpu == sickGPU && ended >= podsBefore:
				sick = p
			case p.leased:
				q.end(t, p, 0)
			}
		}
		return sick != nil
	})
	sign := time.Now()
	changeFile(t, sickGPU, "ras/umc_err_count", "ue: 1\nce: 0\n")
	leaves()
	t.Logf("the GPU is no longer offered %s after the sign", time.Since(sign))
	q.end(t, sick, met)
	q.until(t, "all pods end", func() bool {
		for _, p := range q.pods {
			switch {
			case p.exitStatus >= 0 || !p.leased:
			case p.gpu == sickGPU:
				q.end(t, p, met)
			default:
				q.end(t, p, 0)
			}
		}
		return q.left() == 0
	})
	q.report(t, sign)
}

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

func timeOf(t *testing.T, file string) time.Time {
	t.Helper()
	st, err := os.Stat(file)
	require.NoError(t, err)
	return st.ModTime()
}

// report checks what the pods and the cluster recorded, and logs it.
func (q *queue) report(t *testing.T, sign time.Time) {
	t.Helper()
	q.until(t, "the cluster has the end of each pod", func() bool {
		for _, p := range q.pods {
			if p.phase != "Succeeded" && p.phase != "Failed" {
				return false
			}
		}
		return true
	})
	var failed []string
	on, after := map[int]int{}, map[int]int{}
	late := time.Duration(0)
	for i, p := range q.pods {
		if p.phase == "Failed" {
			failed = append(failed, fmt.Sprintf("%s on GPU %d: %s", p.name, p.gpu, p.reason))
		}
		if p.gpu < 0 {
			continue
		}
		on[p.gpu]++
		if p.began.After(sign) {
			after[p.gpu]++
			if p.gpu == sickGPU {
				late = max(late, p.began.Sub(sign))
			}
		}
		for _, other := range q.pods[:i] {
			require.False(t, other.gpu == p.gpu && p.began.Before(q.ended(t, other)) && other.began.Before(q.ended(t, p)),
				"%s and %s had GPU %d at once", p.name, other.name, p.gpu)
		}
	}
	t.Logf("pods by GPU: %v, of these after the sign: %v; the last began on GPU %d %s after the sign; failed: %q", on, after, sickGPU, late, failed)
	require.LessOrEqual(t, len(failed), 1, "%q", failed)
	require.LessOrEqual(t, late, noticed)
	for i := range gpus {
		require.True(t, i == sickGPU || after[i] > 0, "GPU %d has pods after the sign", i)
	}
}

func (q *queue) ended(t *testing.T, p *queuedPod) time.Time {
	t.Helper()
	return timeOf(t, filepath.Join(q.folder, p.name+".ended"))
}

// remove deletes the pods and waits until the nodes have ended them.
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
}
