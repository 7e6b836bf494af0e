package juju

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	agent "github.com/juju/juju/concourseagent"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// options are an application's.
type options = map[string]any

// world is a model with the machines of its units.
type world struct {
	*agent.Model
	t       *testing.T
	data    string
	units   []*unit
	webPort int
}

// unit is a unit on its machine.
type unit struct {
	*agent.Unit
	Machine *sandbox.Machine
	Root    host.Root
	t       *testing.T
}

const webUnit, workerUnit = "concourse-server.service", "concourse-worker.service"

// newWorld makes an empty model. An option is the same for all units of an
// application, so one port answers for whichever machine runs the web.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Model: agent.NewModel(), t: t, data: shortDir(t)}
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		for _, u := range w.units {
			if u.Machine.Up(webUnit) {
				to := &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", u.Machine.WebPort())}
				httputil.NewSingleHostReverseProxy(to).ServeHTTP(out, r)
				return
			}
		}
		http.Error(out, "not running", http.StatusServiceUnavailable)
	}))
	t.Cleanup(s.Close)
	w.webPort = s.Listener.Addr().(*net.TCPAddr).Port
	return w
}

// deploy adds an application of n units, of which the first leads, each on a
// machine like the tree hostDir. Its peer relation has the number id.
func (w *world) deploy(app string, id, n int, hostDir string, set options) []*unit {
	w.t.Helper()
	a, err := w.Deploy(app, charmDir())
	require.NoError(w.t, err)
	a.Resources["concourse-release"] = release("8.2.5")
	require.NoError(w.t, w.Configure(app, options{"web-port": w.webPort}))
	require.NoError(w.t, w.Configure(app, set))
	w.Relate(id, agent.End{App: app, Endpoint: "peers", Role: "peer", Interface: "concourse-ci_peers"})
	var added []*unit
	for k := range n {
		added = append(added, w.unit(fmt.Sprintf("%s/%d", app, k), fmt.Sprintf("10.0.%d.%d", id, 10+k), hostDir))
	}
	w.Lead(app + "/0")
	return added
}

// unit adds one. Juju gives a hook nothing of the agent's environment, so what leads the
// charm to its sandbox is in a script before dispatch.
func (w *world) unit(name, address, hostDir string) *unit {
	w.t.Helper()
	charm := agent.CharmDir(w.data, name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(charm), 0o755))
	require.NoError(w.t, os.CopyFS(charm, os.DirFS(charmDir())))
	s, err := sandbox.New(sandbox.Options{Host: hostDir, Charm: charm, Exe: standIns(), Unit: name})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, s.Close()) })
	script := "#!/bin/sh\n"
	for _, kv := range s.Command(nil).Env {
		k, v, _ := strings.Cut(kv, "=")
		if k == "PATH" {
			tools, _, _ := strings.Cut(v, ":")
			for _, tool := range jujutest.ToolNames() { // none but Juju's own may answer
				require.NoError(w.t, os.Remove(filepath.Join(tools, tool)))
			}
			v = agent.ToolsDir(w.data, name) + ":" + v
		}
		script += fmt.Sprintf("export %s='%s'\n", k, v)
	}
	dispatch := filepath.Join(charm, "dispatch")
	require.NoError(w.t, os.Rename(dispatch, filepath.Join(charm, ".dispatch")))
	require.NoError(w.t, os.WriteFile(dispatch, []byte(script+`exec "$JUJU_CHARM_DIR/.dispatch" "$@"`+"\n"), 0o755))
	u, err := w.AddUnit(name, address, w.data, jujuc())
	require.NoError(w.t, err)
	one := &unit{u, s.Machine, s.Root, w.t}
	one.giveKey()
	w.units = append(w.units, one)
	return one
}

// shortDir is a folder with a short name, because names of sockets in it have at most 108
// characters.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "j-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func fixture(name string) string { return filepath.Join(hosttest.HostsDir(), name) }

// giveKey spares the unit the making of a key, which takes its time.
func (u *unit) giveKey() {
	u.t.Helper()
	const path = "/var/lib/concourse-worker/keys/worker_key"
	if u.Root.Exists(path) {
		return
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(u.t, err)
	require.NoError(u.t, u.Root.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600))
}

func (u *unit) read(path string) string {
	u.t.Helper()
	data, err := u.Root.ReadFile(path)
	require.NoError(u.t, err)
	return string(data)
}

func (u *unit) status() string { return u.Status.Status + ": " + u.Status.Message }

func (u *unit) up() (names []string) {
	for _, name := range []string{webUnit, workerUnit} {
		if u.Machine.Up(name) {
			names = append(names, name)
		}
	}
	return names
}

// settle runs what is due on all units until nothing is, and lists it:
// "ci/0 install".
func (w *world) settle() (hooks []string) {
	w.t.Helper()
	for range 30 {
		before := len(hooks)
		for _, u := range w.units {
			for _, r := range u.Settle() {
				require.NoError(w.t, r.Err, "%s %s: %v", u.Name, r.Hook, r.Logs)
				hooks = append(hooks, u.Name+" "+r.Hook)
			}
		}
		if len(hooks) == before {
			return hooks
		}
	}
	require.Fail(w.t, "the units tell each other news without end", "%v", hooks[len(hooks)-20:])
	return nil
}

// idle requires that no one has anything to do or to report.
func (w *world) idle() {
	w.t.Helper()
	for _, u := range w.units {
		u.Machine.Recorded()
		r := u.Hook("update-status")
		require.NoError(w.t, r.Err)
		require.Empty(w.t, u.Machine.Recorded(), u.Name)
		for _, l := range r.Logs {
			require.NotContains(w.t, l.Message, "plan:\n", u.Name)
		}
	}
	require.Empty(w.t, w.settle(), "somebody told something")
}

func flight(id int, web, worker string) (int, agent.End, agent.End) {
	return id, agent.End{App: web, Endpoint: "tsa", Role: "provider", Interface: "concourse-ci_tsa"},
		agent.End{App: worker, Endpoint: "flight", Role: "requirer", Interface: "concourse-ci_tsa"}
}

// database is another program's PostgreSQL, related to app, with credentials in a secret.
func (w *world) database(app string, id int) (*agent.Relation, *agent.Secret) {
	w.t.Helper()
	pg, err := sandbox.NewPostgres()
	require.NoError(w.t, err)
	w.t.Cleanup(func() { pg.Close() })
	_, err = w.Deploy("postgresql", "")
	require.NoError(w.t, err)
	r := w.Relate(id, agent.End{App: "postgresql", Endpoint: "database", Role: "provider", Interface: "postgresql_client"},
		agent.End{App: app, Endpoint: "postgresql", Role: "requirer", Interface: "postgresql_client"})
	w.Join(r, "postgresql/0", "10.0.9.9")
	s := w.AddSecret("postgresql", map[string]string{"username": "relation_4", "password": "first-password"})
	w.Grant(s, r, app)
	w.Tell(r, "postgresql", map[string]string{"database": "concourse", "endpoints": pg.Address(), "secret-user": w.URI(s)})
	return r, s
}
