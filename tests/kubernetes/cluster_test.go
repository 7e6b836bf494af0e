//go:build kubernetes

package kubernetes

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://` + apiAddress + `", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: ` + apiToken + `}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// Nothing is evicted for what more fills the machine's disk, and the node reports at once
// what GPUs it has.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: %s
address: %s
healthzPort: 0
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
enableControllerAttachDetach: false
evictionHard: {memory.available: 1Mi}
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
localStorageCapacityIsolation: false
nodeStatusReportFrequency: 1s
nodeStatusUpdateFrequency: 1s
syncFrequency: 5s
`

const containerdConfig = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "pause.example/pause:1"
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "` + networkPlugins + `"
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "/etc/containerd/certs.d"
`

const hostsToml = `[host."http://` + registryAddress + `"]
capabilities = ["pull", "resolve"]
`

const network = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp",
"ipam": {"type": "host-local", "subnet": "%s", "routes": [{"dst": "0.0.0.0/0"}]}}]}
`

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// program is one that was built.
func program(module, name string) string { return filepath.Join(dir, module, name) }

// newCluster starts a cluster of one node, with this containerd, and waits until that is
// ready. It returns the kubelet.
func newCluster(t *testing.T, containerd string) *part {
	t.Helper()
	serveImages(t)
	at := filepath.Join(dir, "cluster")
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(at)) })
	tokens := apiToken + ",tests,tests,system:masters\n"
	for _, name := range []string{first.name, secondName} { // as kubelets have them
		tokens += kubeletToken(name) + ",system:node:" + name + "," + name + ",system:nodes\n"
	}
	write(t, at+"/token.csv", tokens)
	write(t, at+"/key.pem", key(t))
	write(t, at+"/kubeconfig", kubeconfig)

	newPart(t, "etcd", "etcd", "--data-dir", "/run/etcd", "--listen-peer-urls", "http://127.0.0.1:2380")
	newPart(t, "kube-apiserver", program(kubernetes, "kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379", "--cert-dir="+at+"/api",
		"--bind-address=127.0.0.1", "--advertise-address="+nodeIP, "--service-cluster-ip-range=10.99.0.0/24", "--kubelet-preferred-address-types=InternalIP",
		"--token-auth-file="+at+"/token.csv", "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.example", "--service-account-key-file="+at+"/key.pem", "--service-account-signing-key-file="+at+"/key.pem",
		// Accounts for pods and the taint of a new node are the controller manager's to make and to take.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
	apiServerIsReady(t)
	newPart(t, "kube-scheduler", program(kubernetes, "kube-scheduler"), "--kubeconfig="+at+"/kubeconfig", "--leader-elect=false")
	return startNode(t, first, containerd)
}

// startNode adds a node to the cluster and waits until it is ready. It returns the kubelet.
func startNode(t *testing.T, m member, containerd string) *part {
	t.Helper()
	at := filepath.Join(dir, "cluster")
	config := filepath.Join(at, "kubelet-"+m.name+".yaml")
	write(t, config, fmt.Sprintf(kubeletConfig, m.group(), m.ip))
	write(t, m.root.Path("/etc/containerd/config.toml"), containerdConfig)
	write(t, m.root.Path("/etc/containerd/certs.d/_default/hosts.toml"), hostsToml)
	write(t, m.root.Path("/etc/cni/net.d/pods.conflist"), fmt.Sprintf(network, m.subnet))
	t.Cleanup(func() { // or the next test takes what this node reported last for its own
		for _, path := range []string{"/api/v1/nodes/" + m.name, slicesOfNode + m.name} {
			status, answer, err := call(http.MethodDelete, path, "")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status, answer)
		}
	})
	m.newPart(t, "containerd", containerd)
	eventually(t, "containerd listens", func() (string, bool) {
		_, err := os.Stat(m.root.Path("/run/containerd/containerd.sock"))
		return fmt.Sprint(err), err == nil
	})
	trusted := strings.Replace(kubeconfig, "insecure-skip-tls-verify: true", "certificate-authority: "+at+"/api/apiserver.crt", 1)
	write(t, m.root.Path(kubeletConf), strings.Replace(trusted, apiToken, kubeletToken(m.name), 1))
	kubelet := m.newPart(t, "kubelet", program(kubernetes, "kubelet"), "--config="+config, "--kubeconfig="+kubeletConf,
		"--hostname-override="+m.name, "--node-ip="+m.ip, "--cert-dir="+at+"/kubelet-"+m.name)
	eventually(t, "the node is ready", func() (string, bool) {
		_, answer, err := call(http.MethodGet, "/api/v1/nodes/"+m.name, "")
		return fmt.Sprint(answer, err), strings.Contains(answer, `"reason":"KubeletReady"`)
	})
	return kubelet
}

// kubeletConf has the kubelet's credentials, as with kubeadm.
const kubeletConf = "/etc/kubernetes/kubelet.conf"

func kubeletToken(node string) string { return "of-the-kubelet-of-" + node }

func apiServerIsReady(t *testing.T) {
	t.Helper()
	eventually(t, "the API server is ready", func() (string, bool) {
		status, answer, err := call(http.MethodGet, "/readyz", "")
		return fmt.Sprint(answer, err), status == http.StatusOK
	})
}

// key signs accounts' tokens, of which there are none.
func key(t *testing.T) string {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)}))
}
