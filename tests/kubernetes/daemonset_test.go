//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

const (
	// nodeImage is the name of the image in the chart, with an archive that is in dir.
	nodeImage   = "registry.example/concourse-gpu-node:1.0.0"
	nodeArchive = "gpu-node.tar"
	features    = "/etc/kubernetes/node-feature-discovery/features.d/concourse-gpu"
	daemonSets  = "/apis/apps/v1/namespaces/kube-system/daemonsets"
	systemPods  = "/api/v1/namespaces/kube-system/pods"
)

// A node without a unit gets its GPUs, labels and metrics from the pod of the DaemonSet, with
// the image as containerd imports it.
func TestDaemonSetOffersTheGPUsOfANode(t *testing.T) {
	need(t)
	require.NoError(t, os.RemoveAll(filepath.Dir(cdi.Path)))
	newCluster(t, "containerd")
	at := filepath.Join(dir, "cluster")
	newPart(t, "kube-controller-manager", program(kubernetes, "kube-controller-manager"), "--kubeconfig="+at+"/kubeconfig", "--leader-elect=false",
		"--controllers=daemonset-controller", "--bind-address=127.0.0.1", "--cert-dir="+at+"/controllers")
	out, err := runIn(dir, "ctr", "--namespace", "k8s.io", "images", "import", nodeArchive)
	require.NoError(t, err, out)
	t.Run("the chart is valid", chartIsValid)
	t.Cleanup(func() { removeDaemonSet(t) })
	helm(t, "install", release, chart)
	status, answer, err := send(http.MethodPatch, daemonSets+"/"+release, "application/strategic-merge-patch+json", ownSys(t))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, answer)

	offers(t, gpus)
	labels, err := os.ReadFile(features)
	require.NoError(t, err)
	require.Equal(t, dispatch(t, "kubernetes", "labels"), string(labels))
	require.Contains(t, string(labels), "amd.com/gpu=true\n")
	pod(t, "first", 1)
	got := opened(t, "first")
	require.Len(t, got, 2, "%s", got)
	require.Subset(t, nodes(0, 1, 2, 3), got)
	t.Run("the account of the chart writes Events alone", accountWritesEventsAlone)
	t.Run("the pod of a quarantined GPU has an Event", func(t *testing.T) { podFindsEvidence(t, "first", got) })
	eventually(t, "the exporter serves metrics", func() (string, bool) {
		text := exported(t)
		return text, strings.Contains(text, fmt.Sprintf("\nrocm_exporter_gpus %d\n", gpus))
	})
}

// accountWritesEventsAlone asks the API server what the account of the chart may do.
func accountWritesEventsAlone(t *testing.T) {
	for what, allowed := range map[string]bool{"create events": true, "list events": false, "get pods": false, "get secrets": false, "create pods": false, "get nodes": false} {
		verb, resource, _ := strings.Cut(what, " ")
		answer := post(t, "/apis/authorization.k8s.io/v1/subjectaccessreviews", "{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: {user: "+
			"'system:serviceaccount:kube-system:"+release+"', groups: ['system:serviceaccounts', 'system:authenticated'], resourceAttributes: {namespace: default, verb: "+verb+", resource: "+resource+"}}}")
		require.Equal(t, allowed, strings.Contains(answer, `"allowed":true`), "%s: %s", what, answer)
	}
}

// podFindsEvidence quarantines the GPU that a pod has opened, as gpukit records it on a node
// without a unit.
func podFindsEvidence(t *testing.T, name string, opened []string) {
	var index int
	_, err := fmt.Sscanf(opened[1], "/dev/dri/renderD%d", &index)
	require.NoError(t, err)
	index -= 128
	now := time.Now()
	t.Cleanup(func() { require.NoError(t, os.Remove(quarantine.File)) })
	require.NoError(t, quarantine.RecordFile.Write("/", quarantine.Record{At: now, Policy: quarantine.Auto, GPUs: []quarantine.GPU{{
		Ref: quarantine.Ref{Name: addressOf(t, index), Index: index}, State: quarantine.Quarantined, QuarantinedBy: quarantine.ByHand, Since: now, QuarantinedSince: &now, Reason: "its fan is loud"}}}))
	offers(t, gpus-1)
	hasEvidence(t, name)
}

// account writes the files that pods have of the chart's account, because no controller here
// gives pods a token. It returns their folder.
func account(t *testing.T) (folder string) {
	t.Helper()
	at := filepath.Join(dir, "cluster")
	var token struct{ Status struct{ Token string } }
	require.NoError(t, json.Unmarshal([]byte(post(t, "/api/v1/namespaces/kube-system/serviceaccounts/"+release+"/token",
		"{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, spec: {expirationSeconds: 86400}}")), &token))
	write(t, at+"/account/token", token.Status.Token)
	ca, err := os.ReadFile(at + "/api/apiserver.crt")
	require.NoError(t, err)
	write(t, at+"/account/ca.crt", string(ca))
	return at + "/account"
}

// ownSys returns a patch with /sys and /proc of the node for each container of the
// DaemonSet: only there are the stand-ins of GPUs. The plugin gets the account, and the address of
// the API server on the node's network, because no proxy here leads to the service.
func ownSys(t *testing.T) string {
	t.Helper()
	volumes, mounts := []any{}, []any{}
	for _, name := range []string{"sys", "proc"} {
		volumes = append(volumes, map[string]any{"name": name, "hostPath": map[string]any{"path": "/" + name}})
		mounts = append(mounts, map[string]any{"name": name, "mountPath": "/" + name})
	}
	with := func(names ...string) (containers []any) {
		for _, name := range names {
			containers = append(containers, map[string]any{"name": name, "volumeMounts": mounts})
		}
		return containers
	}
	containers := with("gpu-device-plugin", "rocm-exporter")
	volumes = append(volumes, map[string]any{"name": "account", "hostPath": map[string]any{"path": account(t)}})
	plugin := containers[0].(map[string]any)
	plugin["volumeMounts"] = append(slices.Clone(mounts), map[string]any{"name": "account", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"})
	host, port, err := net.SplitHostPort(apiAddress)
	require.NoError(t, err)
	plugin["env"] = []any{map[string]any{"name": "KUBERNETES_SERVICE_HOST", "value": host}, map[string]any{"name": "KUBERNETES_SERVICE_PORT", "value": port}}
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"hostNetwork": true, "volumes": volumes, "initContainers": with("labels"), "containers": containers}}}})
	require.NoError(t, err)
	return string(data)
}

// systemPod is a pod of kube-system.
type systemPod struct {
	Status struct{ Phase, PodIP string }
}

func systemPodsNow(t *testing.T) (pods []systemPod, answer string) {
	t.Helper()
	status, answer, err := call(http.MethodGet, systemPods, "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, answer)
	var list struct{ Items []systemPod }
	require.NoError(t, json.Unmarshal([]byte(answer), &list))
	return list.Items, answer
}

// exported returns the metrics of the DaemonSet's only pod.
func exported(t *testing.T) string {
	t.Helper()
	pods, answer := systemPodsNow(t)
	require.Len(t, pods, 1, answer)
	out, err := runIn(dir, "busybox", "wget", "-q", "-O-", "http://"+pods[0].Status.PodIP+":9401/metrics")
	return fmt.Sprint(out, err)
}

// removeDaemonSet also ends its pods, which no controller of the cluster does.
func removeDaemonSet(t *testing.T) {
	t.Helper()
	if _, answer := systemPodsNow(t); t.Failed() {
		t.Log(answer)
	}
	helm(t, "uninstall", release, "--ignore-not-found")
	_, answer, err := call(http.MethodDelete, systemPods+"?gracePeriodSeconds=1", "")
	require.NoError(t, err, answer)
	eventually(t, "the pods of the DaemonSet end", func() (string, bool) {
		pods, answer := systemPodsNow(t)
		return answer, len(pods) == 0
	})
}
