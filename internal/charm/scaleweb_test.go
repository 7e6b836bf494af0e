package charm

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

const authorizedKeys = "/var/lib/concourse/keys/authorized_worker_keys"

// scaleWeb is a web's unit that is up, in this process.
type scaleWeb struct {
	t       *testing.T
	root    host.Root
	model   *jujutest.Model
	machine hosttest.Machine
	up      map[string]bool // systemd's units
	linked  map[string]bool // addresses with a connection to the TSA
	refuse  string          // commands with this in their line fail
	refusal string          // with this text
	listed  []string        // workers that the web lists; nil: it does not answer
	pruned  []string        // workers that were removed from the web's list
	later   time.Duration   // how long after hosttest.Now it is
}

// ran has the effects of one hook.
type ran struct {
	err      error
	calls    []string // of hook tools
	commands []string // that change something, as systemctl
}

// newScaleWeb is a web with its database, and with relations of tsa that have
// no worker yet.
func newScaleWeb(t *testing.T, mode string, relations ...int) *scaleWeb {
	t.Helper()
	w := &scaleWeb{t: t, root: hosttest.Host(t, "no-gpu"), model: jujutest.New("concourse/0"), machine: hosttest.NewMachine(t), up: map[string]bool{}, linked: map[string]bool{}, listed: []string{}}
	w.machine.On("systemctl", w.systemctl).On("systemctl show", w.show).On("useradd", hosttest.Useradd(w.root)).On("ss", w.ss)
	pg, err := sandbox.NewPostgres()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pg.Close()) })
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { w.answer(out, r) }))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(at.Port())
	require.NoError(t, err)
	tarball := filepath.Join(t.TempDir(), "concourse.tgz")
	require.NoError(t, sandbox.StandInRelease(tarball, "8.2.5"))

	w.model.CharmDir = hosttest.CharmDir(t)
	w.model.Config = map[string]any{"mode": mode, "web-port": port}
	w.model.Resources["concourse-release"] = tarball
	w.model.Relate(1, "peers", "concourse")
	db := w.model.Relate(4, "postgresql", "postgresql")
	db.AppData = map[string]string{"database": "concourse", "endpoints": pg.Address(), "secret-user": "secret:d2user0000000000000g"}
	w.model.Secrets = append(w.model.Secrets, &jujutest.Secret{ID: "d2user0000000000000g", Owner: "postgresql", Granted: true,
		Revisions: []map[string]string{{"username": "relation_4", "password": "pw"}}})
	for _, id := range relations {
		w.model.Relate(id, "tsa", fmt.Sprintf("gpu%d", id))
	}
	w.hook("install")
	require.Equal(t, "active", w.model.Status().Status, w.model.Status().Message)
	return w
}

// answer simulates the web.
func (w *scaleWeb) answer(out http.ResponseWriter, r *http.Request) {
	if name, prunes := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/workers/"), "/prune"); prunes {
		w.pruned = append(w.pruned, name)
	}
	if r.URL.Path != "/api/v1/workers" {
		fmt.Fprintln(out, sandbox.WebAnswer(r.URL.Path))
		return
	}
	if w.listed == nil {
		http.Error(out, "not now", http.StatusServiceUnavailable)
		return
	}
	list := []concourse.WorkerInfo{}
	for _, name := range w.listed {
		list = append(list, concourse.WorkerInfo{Name: name, State: "running"})
	}
	if err := json.NewEncoder(out).Encode(list); err != nil {
		w.t.Error(err)
	}
}

func (w *scaleWeb) systemctl(c host.Command) (string, error) {
	if up, is := map[string]bool{"start": true, "stop": false}[c.Argv[1]]; is {
		w.up[c.Argv[len(c.Argv)-1]] = up
	}
	return "", nil
}

func (w *scaleWeb) show(c host.Command) (string, error) {
	var b strings.Builder
	for _, name := range c.Argv[2:] {
		if strings.HasPrefix(name, "-") {
			continue
		}
		load, active, sub, file := "not-found", "inactive", "dead", ""
		if w.root.Exists("/etc/systemd/system/" + name) {
			load, file = "loaded", "enabled"
		}
		if w.up[name] {
			active, sub = "active", "running"
		}
		fmt.Fprintf(&b, "Id=%s\nLoadState=%s\nActiveState=%s\nSubState=%s\nUnitFileState=%s\n\n", name, load, active, sub, file)
	}
	return b.String(), nil
}

// ss lists the connections of one address, or ends them.
func (w *scaleWeb) ss(c host.Command) (string, error) {
	addr := c.Argv[slices.Index(c.Argv, "dst")+1]
	switch {
	case slices.Contains(c.Argv, "--kill"):
		delete(w.linked, addr)
	case w.linked[addr]:
		return "0 0 10.0.0.5:2222 " + addr + ":40000\n", nil
	}
	return "", nil
}

// refusing fails the commands that a test names, hook tools too.
type refusing struct {
	host.Runner
	what, answer *string
}

func (r refusing) Run(ctx context.Context, c host.Command) ([]byte, error) {
	if *r.what != "" && strings.Contains(c.String(), *r.what) {
		return nil, &host.CommandError{Argv: c.Argv, Code: 1, Stderr: "ERROR " + cmp.Or(*r.answer, "refused by the test"), Err: errors.New("exit status 1")}
	}
	return r.Runner.Run(ctx, c)
}

// try runs a hook, which may fail.
func (w *scaleWeb) try(e juju.Event) (got ran) {
	w.t.Helper()
	w.machine.Ran = nil
	ctx := w.model.Begin(e)
	c := charmOf(w.t, w.root, w.model, ctx, w.machine)
	c.Host.Clock = hosttest.Clock{T: hosttest.Now.Add(w.later)}
	c.Host.Runner = refusing{c.Host.Runner, &w.refuse, &w.refusal}
	c.Tools = juju.New(c.Host.Runner)
	c.NewSecrets = func() (concourse.WebSecrets, error) { return roletest.WebSecrets(), nil }
	if got.err = c.Hook(w.t.Context()); got.err == nil {
		require.NoError(w.t, ctx.Commit())
	} else {
		ctx.Rollback()
	}
	for _, argv := range ctx.Calls {
		got.calls = append(got.calls, strings.Join(argv, " "))
	}
	got.commands = slices.Clone(w.machine.Ran)
	return got
}

func (w *scaleWeb) hook(name string) ran {
	w.t.Helper()
	got := w.try(jujutest.Hook(name))
	require.NoError(w.t, got.err, name)
	return got
}

// related runs a hook of one worker.
func (w *scaleWeb) related(r *jujutest.Relation, kind, unit string) ran {
	w.t.Helper()
	got := w.try(jujutest.RelationHook(r, kind, unit))
	require.NoError(w.t, got.err, "%s %s", r.Name(), kind)
	return got
}

// joins adds the n-th worker's unit to a relation, without a hook. Without a key it has only
// Juju's data.
func (w *scaleWeb) joins(r *jujutest.Relation, n int, key string) (unit string) {
	unit = fmt.Sprintf("%s/%d", r.RemoteApp, n)
	r.Units[unit] = map[string]string{"ingress-address": workerAddress(n)}
	if key != "" {
		maps.Copy(r.Units[unit], relation.WorkerDatabag(key, fmt.Sprintf("worker-%d", n), "8.2.5"))
		w.linked[workerAddress(n)] = true
	}
	return unit
}

// fill makes n workers of a relation known at once, as after an upgrade.
func (w *scaleWeb) fill(r *jujutest.Relation, n int) {
	w.t.Helper()
	for i := range n {
		w.joins(r, i, fakeKey(w.t, i))
	}
	w.hook("config-changed")
	require.Len(w.t, w.keys(), n)
}

// leaves takes a unit away and runs its hook.
func (w *scaleWeb) leaves(r *jujutest.Relation, unit string) ran {
	w.t.Helper()
	delete(r.Units, unit)
	return w.related(r, "departed", unit)
}

// keys returns the lines of the file that the web reads.
func (w *scaleWeb) keys() []string {
	w.t.Helper()
	data, err := w.root.ReadFile(authorizedKeys)
	require.NoError(w.t, err)
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")[:strings.Count(string(data), "\n")]
}

// read lists the remote units with a read databag of a relation.
func (g ran) read(r *jujutest.Relation) (units []string) {
	for _, line := range g.calls {
		if rest, ok := strings.CutPrefix(line, "relation-get --format=json -r "+r.Name()+" - "); ok && rest != "concourse/0" {
			units = append(units, rest)
		}
	}
	return units
}

// tools counts the calls of each hook tool.
func (g ran) tools() map[string]int {
	n := map[string]int{}
	for _, line := range g.calls {
		name, _, _ := strings.Cut(line, " ")
		n[name]++
	}
	return n
}

func workerAddress(n int) string { return fmt.Sprintf("10.1.%d.%d", n/256, n%256) }

// fakeKey returns the n-th public key. Its private key does not exist.
func fakeKey(t *testing.T, n int) string {
	t.Helper()
	sum := sha256.Sum256(fmt.Append(nil, n))
	key, err := ssh.NewPublicKey(ed25519.PublicKey(sum[:]))
	require.NoError(t, err)
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}
