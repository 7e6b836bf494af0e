//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
)

const (
	queuedPods = 40
	podsBefore = 10               // so many succeed before the sign
	sickGPU    = 2                // the first of the second node
	noticed    = 20 * time.Second // after the sign no pod begins on the GPU
	met        = 134              // the exit status of a pod with a sick GPU
)

// The promise with pods of the device plugin and with pods that claim GPUs: 40 pods are queued,
// two nodes have two GPUs each, and one GPU falls sick. The owner of the GPUs finds the sign.
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

// keepsThePromise queues pods with this request for a GPU. leaves waits until the cluster no
// longer offers the sick GPU, and until then its pod runs. If the pod ended earlier, the next
// pod would be sent to the GPU and fail, too.
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
