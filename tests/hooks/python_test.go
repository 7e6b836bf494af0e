package hooks

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// systemctl is a call by someone who is not this charm.
func (u *unit) systemctl(args ...string) {
	u.t.Helper()
	u.Machine.Systemctl(args...)
}

// pythonHooks does what the Python charm's upgrade-charm, which goes on to its
// config-changed, does to a unit that someone takes back to it, old being what it made of
// one before: by paths that it knows, through whatever links are there.
func (u *unit) pythonHooks(old host.Root, password string) {
	u.t.Helper()
	p := python{u, old}
	service, keys, env := webUnit, "/var/lib/concourse/keys/", "/var/lib/concourse/config.env"
	if !old.Exists(env) {
		service, keys, env = workerUnit, "/var/lib/concourse-worker/keys/", "/var/lib/concourse-worker/worker-config.env"
	}
	if !u.Root.Exists("/var/lib/concourse/bin/concourse") { // it downloads a release then
		for _, name := range []string{"concourse", "runc"} {
			p.write("/var/lib/concourse/bin/"+name, []byte(name+" that the Python charm fetched\n"), 0o755)
		}
		p.write("/var/lib/concourse/resource-types/git/resource_metadata.json", []byte("{}\n"), 0o644)
	}
	for _, dir := range []string{"/var/lib/concourse/keys/", keys} { // the web's on a worker, too
		require.NoError(u.t, os.MkdirAll(u.Root.Path(dir), 0o755))
		require.NoError(u.t, os.Chmod(u.Root.Path(dir), 0o755))
	}
	p.keys(keys)
	p.copy("/etc/systemd/system/"+service, 0o644)
	u.systemctl("daemon-reload")
	if service == workerUnit {
		p.wrapper()
	}
	p.merge(env, password)
	u.systemctl("restart", service)
}

type python struct {
	*unit
	old host.Root
}

func (p python) write(path string, data []byte, mode os.FileMode) {
	p.t.Helper()
	require.NoError(p.t, os.MkdirAll(filepath.Dir(p.Root.Path(path)), 0o755))
	require.NoError(p.t, os.WriteFile(p.Root.Path(path), data, mode))
	require.NoError(p.t, os.Chmod(p.Root.Path(path), mode))
}

func (p python) copy(path string, mode os.FileMode) {
	p.t.Helper()
	data, err := p.old.ReadFile(path)
	require.NoError(p.t, err)
	p.write(path, data, mode)
}

// keys are made if the host key is missing. Its public half replaces an existing one.
func (p python) keys(dir string) {
	if p.Root.Exists(dir + "tsa_host_key") {
		return
	}
	for _, name := range []string{"tsa_host_key", "session_signing_key", "worker_key"} {
		if p.Root.Exists(dir + name) {
			continue
		}
		private, public := hosttest.Key("made on the way back: " + name)
		p.write(dir+name, []byte(private), 0o600)
		if name != "session_signing_key" {
			p.write(dir+name+".pub", []byte(public), 0o644)
		}
	}
}

// wrapper is before runc: a link to it takes runc's place, which is kept.
func (p python) wrapper() {
	p.t.Helper()
	const wrapper, runc = "/opt/bin/runc-wrapper", "/var/lib/concourse/bin/runc"
	p.copy(wrapper, 0o755)
	st, err := p.Root.Lstat(runc)
	require.NoError(p.t, err)
	if !st.Mode().IsRegular() {
		return
	}
	data, err := p.Root.ReadFile(runc)
	require.NoError(p.t, err)
	for _, to := range []string{"/usr/bin/runc.real", "/opt/bin/runc.real", runc + ".real"} {
		p.write(to, data, 0o755)
	}
	for _, link := range []string{runc, "/opt/bin/runc"} {
		require.NoError(p.t, p.Root.Remove(link))
		require.NoError(p.t, os.Symlink(wrapper, p.Root.Path(link)))
	}
}

// merge writes its variables into what is there, and keeps every other one.
func (p python) merge(path, password string) {
	p.t.Helper()
	lines := map[string]string{}
	for _, root := range []host.Root{p.Root, p.old} {
		data, err := root.ReadFile(path)
		require.NoError(p.t, err)
		for line := range strings.Lines(string(data)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			lines[key] = value
		}
	}
	if password != "" {
		lines["CONCOURSE_ADD_LOCAL_USER"] = "admin:" + password
		relationOf(p.unit, "peers").LocalApp["admin-password"] = password
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&text, "%s=%s\n", key, lines[key])
	}
	p.write(path, []byte(text.String()), 0o640)
	if os.Geteuid() == 0 { // and a web that it starts gets the program for its own
		out, err := exec.Command("chown", "12345", p.Root.Path("/var/lib/concourse/bin/concourse")).CombinedOutput()
		require.NoError(p.t, err, string(out))
	}
}
