package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/canonical/pebble/internals/plan"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// Machine replaces the parts of a machine that a throwaway root lacks: systemd, its journal
// and apt. It records commands instead of running them, and keeps the state that they would
// leave, so that the next run of the charm sees it. Pebble's unit runs only if Pebble can
// read its layers. The demo shows it as a stand-in.
type Machine struct {
	Root host.Root
	// OnUnit, if set, is called when a unit starts or stops.
	OnUnit func(unit string, up bool)
	// Fail, if set, makes a command fail with this text on stderr.
	Fail func(line string) string
	// Ends, if set, makes a unit end right after its start. It returns the substate,
	// auto-restart or failed, or "" for a unit that runs.
	Ends func(unit string) string
	// Web, if set, answers instead of the web while the web runs.
	Web http.Handler

	mu       sync.Mutex
	units    map[string]*unit
	recorded []string
	called   func(argv []string, after bool) (ended bool)
	listener net.Listener
	servers  []*http.Server
	port     int // of the worker's health check
	webPort  int // of the web
}

type unit struct {
	active, enabled bool
	sub             string // of an inactive unit, "" for dead
	starts          int
}

// machinePrograms are the commands that the Machine answers.
var machinePrograms = []string{"systemctl", "journalctl", "apt-get", "useradd", "ss", "nvidia-ctk", "udevadm",
	"modprobe", "depmod", "update-initramfs", "update-ca-certificates"}

const (
	machineSocket = "SANDBOX_MACHINE"
	webUnit       = "concourse-server.service"
	pebbleUnit    = "concourse-pebble.service"
	pebbleLayers  = "/var/lib/concourse-ci-machine/pebble/layers"
)

// nvidiaCDI is a short output of NVIDIA's tool on a machine with one GPU.
const nvidiaCDI = `{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[` +
	`{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia0"}]}},` +
	`{"name":"all","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia0"}]}}]}` + "\n"

// Recorded returns the commands recorded since the last call.
func (m *Machine) Recorded() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.recorded
	m.recorded = nil
	return out
}

// Up reports whether a unit is running.
func (m *Machine) Up(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.units[name]
	return u != nil && u.active
}

// serve answers the programs on a unix socket. While their units run, it also answers for
// the worker and the web on free ports of 127.0.0.1.
func (m *Machine) serve(socket string) error {
	m.units = map[string]*unit{}
	var err error
	if m.listener, err = net.Listen("unix", socket); err != nil {
		return err
	}
	go func() {
		for {
			conn, err := m.listener.Accept()
			if err != nil {
				return
			}
			go m.answer(conn)
		}
	}()
	if m.port, err = m.serveUnit("concourse-worker.service",
		`{"garden":{"healthy":true},"baggageclaim":{"healthy":true}}`); err != nil {
		return err
	}
	m.webPort, err = m.serveUnit(webUnit, "")
	return err
}

func (m *Machine) serveUnit(name, text string) (port int, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !m.Up(name) {
			http.Error(w, "not running", http.StatusServiceUnavailable)
			return
		}
		if name == webUnit && m.Web != nil {
			m.Web.ServeHTTP(w, r)
			return
		}
		if name == webUnit {
			text = WebAnswer(r.URL.Path)
		}
		fmt.Fprintln(w, text)
	})}
	m.servers = append(m.servers, s)
	go s.Serve(l)
	return l.Addr().(*net.TCPAddr).Port, nil
}

// WebAnswer returns the stand-in web's answer to a path. The web accepts every login and
// has no workers and no builds.
func WebAnswer(path string) string {
	switch path {
	case "/sky/issuer/token":
		return `{"access_token":"stand-in","token_type":"bearer","expires_in":3600}`
	case "/api/v1/workers", "/api/v1/builds":
		return `[]`
	}
	return `{"version":"8.2.5","worker_version":"2.5"}`
}

// WebPort returns the port of this machine's web.
func (m *Machine) WebPort() int { return m.webPort }

func (m *Machine) close() {
	m.listener.Close()
	for _, s := range m.servers {
		s.Close()
	}
}

type question struct{ Argv []string }

type reply struct {
	Stdout, Stderr string
	Code           int
}

func (m *Machine) answer(conn net.Conn) {
	defer conn.Close()
	var q question
	if json.NewDecoder(conn).Decode(&q) == nil && len(q.Argv) > 0 {
		m.mu.Lock()
		called := m.called
		m.mu.Unlock()
		if called == nil {
			called = func([]string, bool) bool { return false }
		}
		if called(q.Argv, false) {
			return // otherwise the command would run beside the test's next step
		}
		r := m.run(q.Argv)
		if !called(q.Argv, true) {
			json.NewEncoder(conn).Encode(r)
		}
	}
}

// interrupt sets a function to call before and after each command of a process. It reports
// whether it ended the process.
func (m *Machine) interrupt(called func(argv []string, after bool) (ended bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.called = called
}

// Systemctl runs systemctl as a person would. It returns the output.
func (m *Machine) Systemctl(args ...string) string {
	return m.run(append([]string{"systemctl"}, args...)).Stdout
}

func (m *Machine) run(argv []string) reply {
	line := strings.Join(argv, " ")
	if m.Fail != nil {
		if text := m.Fail(line); text != "" {
			return reply{Stderr: text + "\n", Code: 100}
		}
	}
	switch argv[0] {
	case "journalctl":
		if m.Up("concourse-worker.service") {
			return reply{Stdout: `{"level":"info","source":"worker","message":"worker.beacon-runner.beacon.registered"}` + "\n"}
		}
		return reply{}
	case "apt-get":
		if !slices.Contains(argv, "--simulate") {
			m.record(line)
		}
		return m.aptGet(argv[1:])
	case "useradd":
		m.record(line)
		return m.addUser(argv[len(argv)-1])
	case "nvidia-ctk":
		m.record(line)
		return reply{Stdout: nvidiaCDI}
	case "udevadm", "modprobe", "depmod", "update-initramfs":
		m.record(line)
		return reply{}
	case "update-ca-certificates":
		m.record(line)
		return m.updateTrust(slices.Contains(argv, "--fresh"))
	case "ss":
		m.record(line)
		return reply{}
	}
	return m.systemctl(argv[1:], line)
}

func (m *Machine) record(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recorded = append(m.recorded, line)
}

// aptGet records an installed package in dpkg's status file.
func (m *Machine) aptGet(args []string) reply {
	if slices.Contains(args, "remove") {
		return m.aptRemove(args[len(args)-1], slices.Contains(args, "--simulate"))
	}
	if !slices.Contains(args, "install") {
		return reply{}
	}
	name, version, _ := strings.Cut(args[len(args)-1], "=")
	if version == "" || strings.HasSuffix(version, "*") {
		version = strings.TrimSuffix(version, "*") + "1"
	}
	status, err := m.Root.ReadFile("/var/lib/dpkg/status")
	if err != nil && !os.IsNotExist(err) {
		return reply{Stderr: err.Error(), Code: 100}
	}
	status = fmt.Appendf(status, "Package: %s\nStatus: install ok installed\nVersion: %s\n\n", name, version)
	if err := m.Root.WriteFile("/var/lib/dpkg/status", status, 0o644); err != nil {
		return reply{Stderr: err.Error(), Code: 100}
	}
	return reply{}
}

func (m *Machine) aptRemove(name string, simulate bool) reply {
	if simulate {
		return reply{Stdout: "Remv " + name + " [1]\n"}
	}
	status, err := m.Root.ReadFile("/var/lib/dpkg/status")
	var rest []string
	for stanza := range strings.SplitSeq(string(status), "\n\n") {
		if stanza != "" && !strings.HasPrefix(stanza, "Package: "+name+"\n") {
			rest = append(rest, stanza+"\n\n")
		}
	}
	if err == nil {
		err = m.Root.WriteFile("/var/lib/dpkg/status", []byte(strings.Join(rest, "")), 0o644)
	}
	if err != nil {
		return reply{Stderr: err.Error(), Code: 100}
	}
	return reply{}
}

// addUser records a user with the ids of this process, because it owns the sandbox's files.
func (m *Machine) addUser(name string) reply {
	passwd, err := m.Root.ReadFile("/etc/passwd")
	if err == nil || os.IsNotExist(err) {
		passwd = fmt.Appendf(passwd, "%s:x:%d:%d::/nonexistent:/usr/sbin/nologin\n", name, os.Getuid(), os.Getgid())
		err = m.Root.WriteFile("/etc/passwd", passwd, 0o644)
	}
	if err != nil {
		return reply{Stderr: err.Error(), Code: 1}
	}
	return reply{}
}

func (m *Machine) systemctl(args []string, line string) reply {
	var names []string
	for _, a := range args[1:] {
		if !strings.HasPrefix(a, "-") {
			if !strings.ContainsRune(a, '.') {
				a += ".service"
			}
			names = append(names, a)
		}
	}
	if args[0] == "show" {
		return reply{Stdout: m.show(names)}
	}
	m.record(line)
	for _, name := range names {
		m.set(name, args[0])
	}
	return reply{}
}

func (m *Machine) set(name, verb string) {
	ends, starts := "", verb == "start" || verb == "restart"
	if m.Ends != nil && starts {
		ends = m.Ends(name)
	}
	if name == pebbleUnit && starts {
		if _, err := plan.ReadDir(m.Root.Path(pebbleLayers), nil); err != nil {
			ends = "auto-restart" // Pebble ends at such a layer, and systemd starts it again
		}
	}
	m.mu.Lock()
	u := m.units[name]
	if u == nil {
		u = &unit{}
		m.units[name] = u
	}
	was := u.active
	switch verb {
	case "enable", "disable":
		u.enabled = verb == "enable"
	case "start", "restart":
		if verb == "restart" || !was {
			u.starts++
		}
		u.active, u.sub = ends == "", ends
	case "stop", "kill", "reset-failed": // the stand-in of a worker ends at any signal
		u.active, u.sub = false, ""
	}
	now, restarted := u.active, verb == "restart" && was
	m.mu.Unlock()
	if m.OnUnit != nil && (was != now || restarted) {
		m.OnUnit(name, now)
	}
}

func (m *Machine) show(names []string) string {
	var b strings.Builder
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		load, active, sub, file := "not-found", "inactive", "dead", ""
		if m.Root.Exists("/etc/systemd/system/" + name) {
			load, file = "loaded", "disabled"
			if u := m.units[name]; u != nil && u.enabled {
				file = "enabled"
			}
		}
		invocation := ""
		switch u := m.units[name]; {
		case u != nil && u.active:
			active, sub, invocation = "active", "running", fmt.Sprintf("%032x", u.starts)
		case u != nil && u.sub == "auto-restart":
			active, sub = "activating", u.sub
		case u != nil && u.sub != "":
			active, sub = "failed", u.sub
		}
		fmt.Fprintf(&b, "Id=%s\nLoadState=%s\nActiveState=%s\nSubState=%s\nUnitFileState=%s\nInvocationID=%s\n\n",
			name, load, active, sub, file, invocation)
	}
	return b.String()
}

// machineMain runs a stand-in command: it sends its arguments to the Machine and prints the
// answer.
func machineMain(args []string, stdout, stderr io.Writer) int {
	conn, err := net.Dial("unix", os.Getenv(machineSocket))
	if err != nil {
		fmt.Fprintln(stderr, "cannot reach the sandbox:", err)
		return 1
	}
	defer conn.Close()
	args = append([]string{filepath.Base(args[0])}, args[1:]...)
	var r reply
	if err = json.NewEncoder(conn).Encode(question{args}); err == nil {
		err = json.NewDecoder(conn).Decode(&r)
	}
	if err != nil {
		fmt.Fprintln(stderr, "cannot reach the sandbox:", err)
		return 1
	}
	io.WriteString(stdout, r.Stdout)
	io.WriteString(stderr, r.Stderr)
	return r.Code
}
