package deviceplugin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/httpclient"
)

// KubeletConfigs has the kubelet's own credentials, by the program that made them: kubeadm and
// Canonical Kubernetes, RKE2, k3s, MicroK8s.
var KubeletConfigs = []string{"/etc/kubernetes/kubelet.conf", "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
	"/var/lib/rancher/k3s/agent/kubelet.kubeconfig", "/var/snap/microk8s/current/credentials/kubelet.config"}

// accountDir has the credentials of a pod's service account.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// cluster holds the address of an API server and the credentials for it.
type cluster struct {
	server string
	token  string // "" with a client certificate
	tls    *tls.Config
}

// connect returns the cluster of this node. It reads the credentials again each time, because
// they expire.
func connect(r host.Root) (cluster, error) {
	if address := os.Getenv("KUBERNETES_SERVICE_HOST"); address != "" {
		c := cluster{server: "https://" + net.JoinHostPort(address, os.Getenv("KUBERNETES_SERVICE_PORT"))}
		token, err := r.ReadText(accountDir + "/token")
		if err != nil {
			return c, err
		}
		ca, err := r.ReadFile(accountDir + "/ca.crt")
		if err != nil {
			return c, err
		}
		c.token = token
		c.tls, err = tlsConfig(ca)
		return c, err
	}
	i := slices.IndexFunc(KubeletConfigs, r.Exists)
	if i < 0 {
		return cluster{}, fmt.Errorf("cannot find the kubelet's credentials: none of %s",
			strings.Join(KubeletConfigs, ", "))
	}
	file := r.Path(KubeletConfigs[i])
	data, err := os.ReadFile(file)
	if err != nil {
		return cluster{}, err
	}
	c, err := decodeKubeconfig(data, file)
	if err != nil {
		return c, fmt.Errorf("cannot use %s: %w", file, err)
	}
	return c, nil
}

// component names this program in Events.
const component = "gpu-device-plugin"

// createEvent writes an Event. An Event that the cluster has already is not an error.
func (c cluster) createEvent(ctx context.Context, e event, now time.Time) error {
	at := now.UTC().Format(time.RFC3339)
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": e.name(), "namespace": e.namespace},
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": e.namespace, "name": e.pod,
			"uid": e.uid},
		"reason": "GPUQuarantined", "message": e.text, "type": "Warning", "count": 1,
		"firstTimestamp": at, "lastTimestamp": at,
		"source": map[string]any{"component": component}, "reportingComponent": component,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	path := c.server + "/api/v1/namespaces/" + url.PathEscape(e.namespace) + "/events"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", component)
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	a, err := httpclient.New(httpclient.Options{TLS: c.tls}).Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode == http.StatusCreated || a.StatusCode == http.StatusConflict {
		return nil
	}
	var why struct{ Message string }
	_ = json.NewDecoder(io.LimitReader(a.Body, 1<<16)).Decode(&why) // a proxy's answer has none
	return fmt.Errorf("the API server answers %s", cmp.Or(why.Message, a.Status))
}
