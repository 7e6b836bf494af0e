package scripts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What must never be seen: the stand-ins hand these out.
const (
	password  = "pass-word-7"
	token     = "to-ken-7"
	rootToken = "root-token-7"
	unsealKey = "unseal-key-7"
	roleID    = "role-id-7"
	roleKey   = "role-secret-7"
)

var secrets = []string{password, token, rootToken, unsealKey, roleID, roleKey}

type application struct {
	Config map[string]string
	Units  int
}

// world is what the stand-ins know and change: a model, an LXD host, Concourse
// and Vault, in a file.
type world struct {
	dir string
	env []string // more of the scripts' environment

	Model     string
	Current   string // the model that a juju without --model is about
	Apps      map[string]*application
	Related   map[string]bool
	Unsealed  bool
	VaultData bool
	Devices   map[string]map[string]map[string]string // container, device
	Profile   map[string]map[string]string            // devices that each container has by its profile
	Config    map[string]map[string]string            // container
	Cards     []map[string]any
	Instance  string         // overrides the machines' instance id
	Type      string         // of instances
	Fail      map[string]int // how often "juju run" and the like fail before they work
	FailTask  string         // the file name of a task that fails
}

// stand-ins: this test program under other names.
var standIns = map[string]func(w *world, argv []string) int{
	"juju": standInJuju, "lxc": standInLxc, "fly": standInFly, "curl": standInCurl, "systemctl": standInSystemctl,
}

var (
	oneAMD  = []map[string]any{card("1002", "0000:03:00.0", 1), card("10de", "0000:0a:00.0", 0)}
	kfd     = map[string]string{"type": "unix-char", "source": "/dev/kfd", "path": "/dev/kfd", "gid": "44", "required": "false"}
	byCharm = map[string]map[string]string{"kfd": kfd}
)

func TestMain(m *testing.M) {
	if f, ok := standIns[filepath.Base(os.Args[0])]; ok {
		os.Exit(standIn(filepath.Base(os.Args[0]), f))
	}
	os.Exit(m.Run())
}

func standIn(name string, f func(*world, []string) int) int {
	w := &world{dir: os.Getenv("STANDIN_WORLD")}
	argv := os.Args[1:]
	log, err := os.OpenFile(w.dir+"/calls", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	must(json.NewEncoder(log).Encode(append([]string{name}, argv...)))
	data, err := os.ReadFile(w.dir + "/world.json")
	must(err)
	must(json.Unmarshal(data, w))
	for n := min(len(argv), 2); n > 0; n-- {
		key := name + " " + strings.Join(argv[:n], " ")
		if n == 1 && name == "juju" && argv[0] == "run" {
			key += " " + argv[len(argv)-1]
		}
		if w.Fail[key] > 0 {
			w.Fail[key]--
			w.save()
			fmt.Fprintln(os.Stderr, "ERROR a stand-in fails as told")
			return 1
		}
	}
	code := f(w, argv)
	w.save()
	return code
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (w *world) save() {
	data, err := json.Marshal(w)
	must(err)
	must(os.WriteFile(w.dir+"/world.json", data, 0o600))
}

func reply(v any) int {
	must(json.NewEncoder(os.Stdout).Encode(v))
	return 0
}

func refuse(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, "ERROR "+format+"\n", args...)
	return 1
}

// amd and nvidia are cards as LXD lists them.
func card(vendor, pci string, id int) map[string]any {
	driver := map[string]string{"1002": "amdgpu", "10de": "nvidia"}[vendor]
	return map[string]any{"vendor_id": vendor, "pci_address": pci, "driver": driver, "product": "Card " + pci, "drm": map[string]any{"id": id}}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("needs jq: sudo apt-get install -y jq")
	}
	w := &world{dir: t.TempDir(), Apps: map[string]*application{}, Related: map[string]bool{}, Type: "container",
		Devices: map[string]map[string]map[string]string{}, Config: map[string]map[string]string{}, Fail: map[string]int{}}
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(w.dir+"/bin", 0o755))
	for name := range standIns {
		require.NoError(t, os.Symlink(self, w.dir+"/bin/"+name))
	}
	require.NoError(t, os.Mkdir(w.dir+"/tmp", 0o755))
	return w
}

// result is what came of a script.
type result struct {
	code     int
	out, err string
	calls    [][]string // of the stand-ins, in order
}

// called lists the calls that begin with the words, each in one line.
func (r result) called(words string) (found []string) {
	for _, c := range r.calls {
		if line := strings.Join(c, " "); strings.HasPrefix(line, words) {
			found = append(found, line)
		}
	}
	return found
}

// run starts a script in the world, which remembers what was done to it.
func (w *world) run(t *testing.T, script string, args ...string) result {
	t.Helper()
	w.save()
	require.NoError(t, os.WriteFile(w.dir+"/calls", nil, 0o600))
	c := exec.Command("../../scripts/"+script, args...)
	c.Env = []string{"PATH=" + w.dir + "/bin:" + os.Getenv("PATH"), "STANDIN_WORLD=" + w.dir, "TMPDIR=" + w.dir + "/tmp",
		"HOME=" + w.dir, "POLL_SECONDS=0", "WAIT_SECONDS=20"}
	c.Env = append(c.Env, w.env...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	c.Run() // its status is looked at below
	r := result{code: c.ProcessState.ExitCode(), out: out.String(), err: errs.String()}
	data, err := os.ReadFile(w.dir + "/calls")
	require.NoError(t, err)
	for d := json.NewDecoder(bytes.NewReader(data)); d.More(); {
		var call []string
		require.NoError(t, d.Decode(&call))
		r.calls = append(r.calls, call)
	}
	data, err = os.ReadFile(w.dir + "/world.json")
	require.NoError(t, err)
	*w = world{dir: w.dir, env: w.env}
	require.NoError(t, json.Unmarshal(data, w))
	for _, s := range secrets {
		require.NotContains(t, r.out+r.err, s, "D42: printed")
		require.False(t, slices.ContainsFunc(r.calls, func(c []string) bool { return strings.Contains(strings.Join(c, " "), s) }), "D42: %s in argv", s)
	}
	left, err := os.ReadDir(w.dir + "/tmp")
	require.NoError(t, err)
	require.Empty(t, left, "left behind")
	return r
}
