package deviceplugin

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// apiServer answers requests over TLS with a status. It hands out what it received.
type apiServer struct {
	*httptest.Server
	requests chan *http.Request
	bodies   chan map[string]any
	answers  chan int
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{requests: make(chan *http.Request, 10), bodies: make(chan map[string]any, 10), answers: make(chan int, 10)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			body = map[string]any{"error": err.Error()}
		}
		s.requests <- r
		s.bodies <- body
		status := <-s.answers
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		if status == http.StatusForbidden {
			w.Write([]byte(`{"kind":"Status","message":"events is forbidden"}`))
		}
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(s.answers) })
	return s
}

// ca returns the certificate of the server, which is its own authority.
func (s *apiServer) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// trusts puts the kubelet's credentials on the machine.
func (s *apiServer) trusts(t *testing.T, r host.Root) {
	t.Helper()
	hosttest.Put(t, r, "/etc/kubernetes/pki/ca.crt", s.ca())
	hosttest.Put(t, r, KubeletConfigs[0], kubeconfigOf("server: '"+s.URL+"', certificate-authority: pki/ca.crt", "token: kubelets"))
	require.NoError(t, os.Chmod(r.Path(KubeletConfigs[0]), 0o600))
}

// withEvidence returns a plugin with a pod that has a quarantined GPU, and a function that does
// rounds until a condition holds.
func withEvidence(t *testing.T) (p *plugin, k *kubelet, log func() string, until func(func() bool)) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	r := hosttest.ManyGPUs(t, 2)
	quarantineGPU(t, r, gpu0)
	p, k, b := started(t, r, nil)
	now := time.Unix(1_800_000_000, 0)
	p.now = func() time.Time { return now }
	k.start()
	k.pods = []*podresources.PodResources{pod("team", "train", "main", wholeGPU, gpu0), pod("team", "other", "main", wholeGPU, gpu1)}
	notes := `{"Data":{"PodDeviceEntries":[{"PodUID":"uid-1","ContainerName":"main","ResourceName":"amd.com/gpu","DeviceIDs":{"-1":["` + gpu0 + `"]}}]}}`
	hosttest.Put(t, host.Root(k.dir), "/device-plugins/"+notesFile, notes)
	return p, k, b.String, func(is func() bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); !is(); <-time.After(time.Millisecond) {
			require.True(t, time.Now().Before(end), "in vain: %s", b)
			now = now.Add(time.Second)
			turn(t, p)
		}
	}
}

func TestPodOfAQuarantinedGPUGetsAnEventOnce(t *testing.T) {
	p, _, log, until := withEvidence(t)
	s := newAPIServer(t)
	s.trusts(t, p.root)
	s.answers <- http.StatusForbidden
	until(func() bool { return strings.Contains(log(), "cannot give pod team/train the evidence") })
	require.Contains(t, log(), "cannot give pod team/train the evidence of its GPU: the API server answers events is forbidden\n")
	require.Empty(t, p.Trouble(), "pods get GPUs")
	s.answers <- http.StatusCreated
	until(func() bool { return strings.HasSuffix(log(), "events: recovered\n") })
	rounds := 0
	until(func() bool { rounds++; return rounds > 30 })
	require.Len(t, s.requests, 2)
	require.Equal(t, 1, strings.Count(log(), "forbidden"), log())
	for range 2 {
		q, body := <-s.requests, <-s.bodies
		require.Equal(t, "POST /api/v1/namespaces/team/events", q.Method+" "+q.URL.Path)
		require.Equal(t, "Bearer kubelets", q.Header.Get("Authorization"))
		require.Equal(t, "GPUQuarantined", body["reason"])
		require.Equal(t, "Warning", body["type"])
		require.Equal(t, "GPU 0 (0000:04:00.0) has been quarantined since 2026-01-02 03:04:05 UTC by hand: a fan", body["message"])
		require.Equal(t, map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "train", "uid": "uid-1"}, body["involvedObject"])
		require.Regexp(t, `^train\.[0-9a-f]{16}$`, body["metadata"].(map[string]any)["name"])
	}
}

// The kubelet of kubeadm has a client certificate.
func TestEventOfTheClusterIsNotWrittenAgain(t *testing.T) {
	p, _, log, until := withEvidence(t)
	s := newAPIServer(t)
	dir, _ := credentialFiles(t)
	s.trusts(t, p.root)
	hosttest.Put(t, p.root, KubeletConfigs[0], kubeconfigOf("server: '"+s.URL+"', certificate-authority: pki/ca.crt",
		"client-certificate: "+dir+"/pki/both.pem, client-key: "+dir+"/pki/both.pem"))
	s.answers <- http.StatusConflict
	until(func() bool { return len(p.reported) == 1 })
	require.NotContains(t, log(), "evidence")
	r := <-s.requests
	require.Equal(t, "node", r.TLS.PeerCertificates[0].Subject.CommonName)
	require.Empty(t, r.Header.Get("Authorization"))
}

func TestPluginWorksWithoutTheCluster(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, p *plugin)
		want    string
	}{
		"no credentials": {func(*testing.T, *plugin) {}, "cannot find the kubelet's credentials: none of /etc/kubernetes/kubelet.conf, "},
		"open to other users": {func(t *testing.T, p *plugin) {
			newAPIServer(t).trusts(t, p.root)
			require.NoError(t, os.Chmod(p.root.Path(KubeletConfigs[0]), 0o644))
		}, "; run: chmod 600 "},
		"another authority": {func(t *testing.T, p *plugin) {
			newAPIServer(t).trusts(t, p.root)
			hosttest.Put(t, p.root, "/etc/kubernetes/pki/ca.crt", hosttest.NewAuthority(t, "other").PEM)
		}, "certificate signed by unknown authority"},
		"no API server": {func(t *testing.T, p *plugin) {
			s := newAPIServer(t)
			s.trusts(t, p.root)
			s.Close()
		}, "connection refused"},
		"a redirect": {func(t *testing.T, p *plugin) {
			s := newAPIServer(t)
			s.trusts(t, p.root)
			for range cap(s.answers) {
				s.answers <- http.StatusFound
			}
		}, "the API server answers 302 Found"},
		"no notes of the kubelet": {func(t *testing.T, p *plugin) {
			hosttest.Put(t, host.Root(p.kubelet), "/device-plugins/"+notesFile, `{"Data":{}}`)
		}, "cannot find the UID of pod team/train: kubelet_internal_checkpoint lacks it"},
	} {
		t.Run(name, func(t *testing.T) {
			p, k, log, until := withEvidence(t)
			c.prepare(t, p)
			until(func() bool { return strings.Contains(log(), c.want) })
			tries, last := 0, p.tried
			until(func() bool {
				if p.tried.After(last) {
					tries, last = tries+1, p.tried
				}
				return tries == 3
			})
			lines := func() int { return strings.Count(log(), "UID") + strings.Count(log(), "evidence") }
			require.Equal(t, 1, lines(), log())
			pods := k.pods
			k.pods = nil
			until(func() bool { return p.logged["events"] == "" })
			k.pods = pods
			until(func() bool { return lines() == 2 })
			require.Empty(t, p.Trouble())
			require.Empty(t, p.reported)
		})
	}
}

// A pod has the token of its account and the cluster's authority.
func TestPodOfThePluginUsesItsAccount(t *testing.T) {
	p, _, log, until := withEvidence(t)
	s := newAPIServer(t)
	at, err := url.Parse(s.URL)
	require.NoError(t, err)
	address, port, err := net.SplitHostPort(at.Host)
	require.NoError(t, err)
	t.Setenv("KUBERNETES_SERVICE_HOST", address)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	until(func() bool { return strings.Contains(log(), filepath.Join(accountDir, "token")+": no such file") })
	hosttest.Put(t, p.root, accountDir+"/token", "accounts\n")
	hosttest.Put(t, p.root, accountDir+"/ca.crt", s.ca())
	s.answers <- http.StatusCreated
	until(func() bool { return len(p.reported) == 1 })
	require.Equal(t, "Bearer accounts", (<-s.requests).Header.Get("Authorization"))
}
