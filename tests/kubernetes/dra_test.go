//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

const (
	claims       = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
	slicesOfNode = "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3D"
)

// Pods get the GPUs of a node by claims, of the kubelet, API server, scheduler and controllers of
// Kubernetes, with the account and the rules of the manifest.
func TestClaimsOnANode(t *testing.T) {
	need(t)
	newCluster(t, program("containerd", "containerd"))
	startControllers(t)
	applyManifest(t, func(kind string) bool { return kind != "DaemonSet" })
	startDriver(t, gpus)
	t.Run("a pod gets the GPU that its claim selects", selectsByCEL)
	t.Run("GPUs of one hive", oneHive)
	t.Run("a claim of AMD's driver", amdsClaim)
	t.Run("a claim for a GPU without faults", avoidsFaults)
	t.Run("the page's claim", claimOfThePage)
	t.Run("an old manifest", extendedResource)
	t.Run("a monitor sees a GPU in use", adminAccess)
	t.Run("a pod that finds no GPU waits", claimWaits)
	t.Run("a quarantined GPU has a taint", quarantineIsATaint)
	t.Run("a task has a GPU", taskHasClaimable)
	t.Run("claims share a GPU", claimsShareGPU)
	t.Run("slices of other nodes are refused", refusesOtherNodes)
	t.Run("pods leave a quarantined GPU", evicts)
	// Last: after the API server was killed, the controller that evicts can keep a slice that was deleted.
	t.Run("the driver, the kubelet, the API server and the scheduler are killed", claimsSurvive)
}

func startControllers(t *testing.T, more ...string) {
	t.Helper()
	names := append(more, "resourceclaim-controller", "device-taint-eviction-controller", "garbage-collector-controller")
	at := filepath.Join(dir, "cluster")
	newPart(t, "kube-controller-manager", program(kubernetes, "kube-controller-manager"), "--kubeconfig="+at+"/kubeconfig", "--leader-elect=false",
		"--controllers="+strings.Join(names, ","), "--bind-address=127.0.0.1", "--cert-dir="+at+"/controllers")
}

// draManifest returns what Helm renders for the DRA driver.
func draManifest(t *testing.T, flags ...string) string {
	t.Helper()
	return helm(t, append([]string{"template", "concourse-gpu-dra", chart, "--set=driver=dra,labels.enabled=false,exporter.enabled=false"}, flags...)...)
}

// applyManifest creates the objects of the DRA manifest of these kinds. A cluster has those of the
// cluster before.
func applyManifest(t *testing.T, wanted func(kind string) bool) {
	t.Helper()
	paths := map[string]string{
		"ServiceAccount": "/api/v1/namespaces/kube-system/serviceaccounts",
		"ClusterRole":    "/apis/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		"ValidatingAdmissionPolicy":        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
		"ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", "DaemonSet": daemonSets,
	}
	for object := range strings.SplitSeq(draManifest(t), "\n---\n") {
		var of struct{ Kind string }
		require.NoError(t, yaml.Unmarshal([]byte(object), &of))
		if wanted(of.Kind) {
			if of.Kind == "DeviceClass" {
				createClass(t, object)
				continue
			}
			status, answer, err := call(http.MethodPost, paths[of.Kind], object)
			require.NoError(t, err)
			require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, status, answer)
		}
	}
}

// createClass creates a DeviceClass for the test alone, or pods of the next cluster's plugin are
// claims, too.
func createClass(t *testing.T, object string) {
	t.Helper()
	const classes = "/apis/resource.k8s.io/v1/deviceclasses"
	t.Cleanup(func() {
		status, answer, err := call(http.MethodDelete, classes, "")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, answer)
	})
	post(t, classes, object)
}

func post(t *testing.T, path, body string) (answer string) {
	t.Helper()
	status, answer, err := call(http.MethodPost, path, body)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, status, answer)
	return answer
}

// startDriver starts gpu-dra-driver as a machine's service does, and waits until so many of its
// GPUs are free for claims.
func startDriver(t *testing.T, free int) *part {
	t.Helper()
	p := newPart(t, "gpu-dra-driver", filepath.Join(dir, "gpu-dra-driver"), "--node-name=node", "--kubeconfig="+credentials(t))
	offersClaims(t, free)
	return p
}

// credentials returns a kubeconfig with a token of the manifest's account that is bound to the
// node.
func credentials(t *testing.T) (file string) {
	t.Helper()
	return first.credentials(t)
}

func (m member) credentials(t *testing.T) (file string) {
	t.Helper()
	var n struct{ Metadata struct{ UID string } }
	get(t, "/api/v1/nodes/"+m.name, &n)
	var token struct{ Status struct{ Token string } }
	require.NoError(t, json.Unmarshal([]byte(post(t, "/api/v1/namespaces/kube-system/serviceaccounts/concourse-gpu-dra/token",
		"{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, spec: {expirationSeconds: 86400, boundObjectRef: {apiVersion: v1, kind: Node, name: "+m.name+", uid: "+n.Metadata.UID+"}}}")), &token))
	file = filepath.Join(dir, "cluster/kubeconfig-dra"+m.suffix())
	write(t, file, strings.Replace(kubeconfig, apiToken, token.Status.Token, 1))
	return file
}

// device is one of the node's slices.
type device struct {
	Name       string
	Attributes map[string]struct {
		String, Version string
		Int             *int
	}
	Taints []struct{ Key, Value, Effect, TimeAdded string }
}

func devicesNow(t *testing.T) (all []device) {
	t.Helper()
	return first.devices(t)
}

func (m member) devices(t *testing.T) (all []device) {
	t.Helper()
	var list struct {
		Items []struct{ Spec struct{ Devices []device } }
	}
	get(t, slicesOfNode+m.name, &list)
	for _, s := range list.Items {
		all = append(all, s.Spec.Devices...)
	}
	return all
}

// offersClaims waits until n devices have no taint.
func offersClaims(t *testing.T, n int) {
	t.Helper()
	first.offersClaims(t, n)
}

func (m member) offersClaims(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " GPUs are offered to claims"), func() (string, bool) {
		now, free := m.devices(t), 0
		for _, d := range now {
			if len(d.Taints) == 0 {
				free++
			}
		}
		return fmt.Sprintf("%+v", now), free == n
	})
}

// claimable makes a machine on which tasks and claims share the first n GPUs.
func claimable(t *testing.T, n int) {
	t.Helper()
	configure(t, n)
	offersClaims(t, n)
}

// addressOf returns the PCI address of a GPU.
func addressOf(t *testing.T, index int) string {
	t.Helper()
	inventory, err := gpu.Discover(host.Root("/"))
	require.NoError(t, err)
	return inventory.GPUsOf(gpu.AMD)[index].Address()
}

// request is one for GPUs of the class.
func request(more string) string {
	return "{name: gpu, exactly: {deviceClassName: gpu.amd.com" + more + "}}"
}

func byAddress(t *testing.T, index int) string {
	return `, selectors: [{cel: {expression: 'device.attributes["gpu.amd.com"].pciAddr == "` + addressOf(t, index) + `"'}}]`
}

// claim makes a claim that ends with the test.
func claim(t *testing.T, name, requests, more string) {
	t.Helper()
	t.Cleanup(func() { endClaim(t, name) })
	post(t, claims, "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: "+name+"}, spec: {devices: {requests: ["+requests+"]"+more+"}}}")
}

func endClaim(t *testing.T, name string) {
	t.Helper()
	_, answer, err := call(http.MethodDelete, claims+"/"+name, "")
	require.NoError(t, err)
	eventually(t, "claim "+name+" is deleted", func() (string, bool) {
		status, now, err := call(http.MethodGet, claims+"/"+name, "")
		return fmt.Sprint(answer, now, err), status == http.StatusNotFound
	})
}

// claimingPod makes a pod, of no user in particular, with a claim.
func claimingPod(t *testing.T, name, claim string) {
	t.Helper()
	t.Cleanup(func() { end(t, name) })
	createClaiming(t, name, claim)
}

func createClaiming(t *testing.T, name, claim string) {
	t.Helper()
	apply(t, "{apiVersion: v1, kind: Pod, metadata: {name: "+name+"}, spec: {securityContext: {runAsUser: 1000, runAsGroup: 1000}, "+
		"containers: [{name: work, image: busybox, resources: {claims: [{name: gpus}]}}], resourceClaims: [{name: gpus, resourceClaimName: "+claim+"}]}}")
}

// claimedBy waits until the GPU's lease is the claim's, "" for no one's.
func claimedBy(t *testing.T, index int, claim string) {
	t.Helper()
	leases := lease.Leases{Dir: lease.DefaultDir, GPUs: []string{addressOf(t, index)}}
	eventually(t, render(index)+" is held by claim "+claim, func() (string, bool) {
		states, _, err := leases.Read()
		if err != nil || !states[0].Held {
			return fmt.Sprint(err), err == nil && claim == ""
		}
		is, _ := states[0].Claim()
		return states[0].Container, claim != "" && is.Name == claim
	})
}

func selectsByCEL(t *testing.T) {
	claimable(t, gpus)
	claim(t, "second", request(byAddress(t, 2)), "")
	claimingPod(t, "mine", "second")
	require.Equal(t, nodes(2), opened(t, "mine"))
	claimedBy(t, 2, "second")
	require.Contains(t, dispatch(t, "gpu", "status"), "claim default/second")
	_, err := task(t, "refused", "AMD_VISIBLE_DEVICES=2")
	require.ErrorContains(t, err, "is held by claim default/second")
	end(t, "mine")
	claimedBy(t, 2, "")
}

func oneHive(t *testing.T) {
	claimable(t, gpus)
	for _, name := range []string{"first", "second"} {
		claim(t, name, request(", count: 2"), `, constraints: [{matchAttribute: gpu.amd.com/xgmiHive}]`)
		claimingPod(t, name, name)
	}
	hives := [][]string{nodes(0, 2), nodes(1, 3)}
	require.ElementsMatch(t, hives, [][]string{opened(t, "first"), opened(t, "second")})
}

// amdsClaim is as in the examples of AMD's driver.
func amdsClaim(t *testing.T) {
	claimable(t, 2)
	claim(t, "full", request(`, allocationMode: ExactCount, count: 1, selectors: [{cel: {expression: 'device.attributes["gpu.amd.com"].type == "amdgpu" && device.capacity["gpu.amd.com"].memory.compareTo(quantity("1Gi")) > 0'}}]`),
		`, config: [{opaque: {driver: gpu.amd.com, parameters: {apiVersion: gpu.resource.amd.com/v1alpha1, kind: GpuConfig}}}]`)
	claimingPod(t, "mine", "full")
	require.Len(t, opened(t, "mine"), 2)
}

// avoidsFaults: a GPU that is back in service after a fault is not for this claim. The fault is one
// change of the slice.
func avoidsFaults(t *testing.T) {
	claimable(t, 2)
	changes := func() int {
		var list struct {
			Items []struct{ Metadata struct{ Generation int } }
		}
		get(t, slicesOfNode+first.name, &list)
		require.Len(t, list.Items, 1)
		return list.Items[0].Metadata.Generation
	}
	faults := func(want int) {
		eventually(t, fmt.Sprint("the slice has ", want, " faults"), func() (string, bool) {
			now := devicesNow(t)[0].Attributes["recentFaults"].Int
			return fmt.Sprint(now), now != nil && *now == want
		})
	}
	faults(0)
	before := changes()
	record, err := quarantine.RecordFile.Read("/")
	require.NoError(t, err)
	record.GPUs[0].Strikes = []time.Time{time.Now()}
	require.NoError(t, quarantine.RecordFile.Write("/", record))
	faults(1)
	require.Equal(t, before+1, changes())
	for _, name := range []string{"first", "second"} {
		claim(t, name, request(`, selectors: [{cel: {expression: 'device.attributes["gpu.amd.com"].recentFaults == 0'}}]`), "")
	}
	claimingPod(t, "first", "first")
	require.Equal(t, nodes(1), opened(t, "first"))
	claimingPod(t, "second", "second")
	unschedulable(t, "second")
	claim(t, "any", request(""), "")
	claimingPod(t, "any", "any")
	require.Equal(t, nodes(0), opened(t, "any"))
}

// extendedResource runs pods that the device plugin's users have.
func extendedResource(t *testing.T) {
	claimable(t, 2)
	pod(t, "first", 1)
	pod(t, "second", 1)
	require.ElementsMatch(t, [][]string{nodes(0), nodes(1)}, [][]string{opened(t, "first"), opened(t, "second")})
}

func adminAccess(t *testing.T) {
	claimable(t, 1)
	status, answer, err := call(http.MethodGet, "/api/v1/namespaces/default", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, answer)
	labelled := strings.Replace(answer, `"labels":{`, `"labels":{"resource.kubernetes.io/admin-access":"true",`, 1)
	status, answer, err = call(http.MethodPut, "/api/v1/namespaces/default", labelled)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, answer)
	claim(t, "busy", request(""), "")
	claimingPod(t, "busy", "busy")
	require.Equal(t, nodes(0), opened(t, "busy"))
	claim(t, "monitor", request(", adminAccess: true"), "")
	claimingPod(t, "monitor", "monitor")
	require.Equal(t, nodes(0), opened(t, "monitor"))
	claimedBy(t, 0, "busy")
	end(t, "monitor")
	claimedBy(t, 0, "busy")
}

// unschedulable waits until the scheduler has said that no node has a GPU for the pod.
func unschedulable(t *testing.T, name string) {
	t.Helper()
	eventually(t, "pod "+name+" waits", func() (string, bool) {
		said := events(t, name)
		return said, strings.Contains(said, "cannot allocate all claims")
	})
	require.Equal(t, "Pending", statusOf(t, name).Phase)
}

func claimWaits(t *testing.T) {
	claimable(t, 1)
	for _, name := range []string{"first", "second"} {
		claim(t, name, request(""), "")
	}
	claimingPod(t, "first", "first")
	require.Equal(t, nodes(0), opened(t, "first"))
	claimingPod(t, "second", "second")
	unschedulable(t, "second")
	end(t, "first")
	require.Equal(t, nodes(0), opened(t, "second"))
}
