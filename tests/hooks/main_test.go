package hooks

import (
	"cmp"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"

	"github.com/stretchr/testify/require"

	// What is tested is built by go build, which go test knows nothing of: this
	// makes a changed charm a reason to run these tests again.

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/cli"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

const (
	unitName = "concourse-ci-machine/0"
	// tsaKey is a made-up public key of a web that does not exist.
	tsaKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ1Jq1s2cKQ0n3H8mDqk5m0vJqv5u0yF2n8mY6mJ2rD"
	// nobodyListens is the address at which the units here look for AMD's packages.
	nobodyListens = "http://127.0.0.1:9"
)

// built is the unpacked charm and two stand-in releases, made once. Nothing
// changes it after TestMain.
var built string

func TestMain(m *testing.M) {
	syscall.Umask(0o022) // as dispatch sets it
	os.Exit(suite.InFolder(m, build))
}

// build makes the charm and releases.
func build(dir string) error {
	built = dir
	err := suite.LightCharm(dir)
	for _, version := range []string{"8.2.5", "8.2.6", "8.3.0"} {
		err = cmp.Or(err, sandbox.StandInRelease(releaseTarball(version), version))
	}
	return err
}

// tools is the program behind the hook tools and the recorded commands. (This
// test's own could be, but takes twice as long to start.)
func tools() string                        { return filepath.Join(built, "bin", "sandbox") }
func charmDir() string                     { return filepath.Join(built, "charm") }
func releaseTarball(version string) string { return filepath.Join(built, "concourse-"+version+".tgz") }

// workerKey is a key like one that the charm makes, which takes its time.
func workerKey() []byte { return keys("all") }

var made struct {
	sync.Mutex
	keys map[string][]byte
}

// keys is one key for each name, made when it is first asked for.
func keys(name string) []byte {
	made.Lock()
	defer made.Unlock()
	if made.keys[name] == nil {
		key, err := rsa.GenerateKey(rand.Reader, 3072)
		if err != nil {
			panic(err) // only if the machine has no randomness
		}
		if made.keys == nil {
			made.keys = map[string][]byte{}
		}
		made.keys[name] = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	}
	return made.keys[name]
}

// unit is a World with failures that end its test.
type unit struct {
	*sandbox.World
	t         *testing.T
	processes bool // its hooks are processes
}

// traces has the hook tools' calls and the commands of all hooks that succeeded, by
// World.
var traces sync.Map

func (u *unit) trace() []string {
	all, _ := traces.Load(u.World)
	lines, _ := all.([]string)
	return lines
}

// options of units here that differ from the charm's defaults.
type options = map[string]any

// runDispatch is the sandbox.Program of dispatch.
func runDispatch(h host.Host, exe string, args []string, env func(string) string, stdout, stderr io.Writer) int {
	return cli.Run(h, wellknown.Dispatch, exe, args, env, stdout, stderr)
}

func newUnit(t *testing.T, hostDir string, set options) *unit {
	t.Helper()
	return unitOf(t, hostDir, set, sandbox.Options{Charm: charmDir(), Main: runDispatch})
}

// processUnit returns a newUnit with hooks that are processes: the built dispatch, and commands.
func processUnit(t *testing.T, hostDir string, set options) *unit {
	t.Helper()
	return unitOf(t, hostDir, set, sandbox.Options{Charm: charmDir()})
}

func unitOf(t *testing.T, hostDir string, set options, o sandbox.Options) *unit {
	t.Helper()
	o.Host, o.Exe, o.Unit = hostDir, tools(), unitName
	w, err := sandbox.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	w.Model.Resources = map[string]string{"concourse-release": releaseTarball("8.2.5")}
	u := &unit{World: w, t: t, processes: o.Main == nil}
	u.set(options{"mode": "worker", "rocm-base-url": nobodyListens})
	u.set(set)
	return u
}

func fixture(name string) string { return filepath.Join(hosttest.HostsDir(), name) }

func (u *unit) set(o options) {
	u.t.Helper()
	for name, value := range maps.All(o) {
		require.NoError(u.t, u.Model.SetConfig(name, value))
	}
}

// web relates the unit to a complete web.
func (u *unit) web() *jujutest.Relation {
	r := u.Model.Relate(7, "flight", "web")
	r.Units = map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2:2222", "tsa-public-key": tsaKey, "concourse-version": "8.2.5"}}
	return r
}

// hook runs a hook that must exit 0.
func (u *unit) hook(name string) sandbox.Result {
	u.t.Helper()
	r, err := u.Hook(name)
	return u.fine(name, r, err)
}

// flight is hook for the first relation's hooks.
func (u *unit) flight(kind, remote string) sandbox.Result {
	u.t.Helper()
	r, err := u.RelationHook(u.Model.Relations[0], kind, remote)
	return u.fine("flight-relation-"+kind, r, err)
}

func (u *unit) fine(name string, r sandbox.Result, err error) sandbox.Result {
	u.t.Helper()
	require.NoError(u.t, err, name)
	require.Zero(u.t, r.Code, "%s: %s", name, r.Output)
	require.Empty(u.t, r.Output, name)
	traces.Store(u.World, slices.Concat(u.trace(), r.Calls, r.Commands))
	return r
}

// worker is a unit with a running, registered worker.
func worker(t *testing.T, hostDir string, set options) *unit {
	t.Helper()
	u := newUnit(t, hostDir, set)
	u.works()
	return u
}

// works makes the unit a running, registered worker.
func (u *unit) works() {
	u.t.Helper()
	u.giveKey()
	u.hook("install")
	u.web()
	u.flight("changed", "web/0")
}

// giveKey spares the unit the making of a key.
func (u *unit) giveKey() {
	u.t.Helper()
	require.NoError(u.t, u.Root.WriteFile("/var/lib/concourse-worker/keys/worker_key", workerKey(), 0o600))
}

// read returns a file of the unit.
func (u *unit) read(path string) string {
	u.t.Helper()
	data, err := u.Root.ReadFile(path)
	require.NoError(u.t, err)
	return string(data)
}
