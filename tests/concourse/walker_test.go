//go:build e2e

package concourse

import (
	"fmt"
	"regexp"
	"strings"
)

// walker is a machine on a walk, with the state that it should have.
type walker struct {
	*unit
	real    bool
	up      bool
	full    bool
	options map[string]string // that the walk set; the others have their default
	gpus    map[string]*walkGPU
	runtime string // compute-runtime of the worker at the last repair, or ""
	others  string // what belongs to the operator, at the beginning
}

// walkGPU is what a walk did to a GPU, by the name of its render node.
type walkGPU struct {
	hidden    bool
	forgotten bool // compute-runtime or mode changed while it was hidden: gpu-device-ids may no longer choose it
	lies      bool
	errors    int  // uncorrectable ones at the last lie
	returned  bool // to service, since it was hidden or lied; a machine that just began has all
}

// pciOf has the addresses of the GPUs with nodes in the fixture mi210x4.
var pciOf = map[string]string{"renderD128": "0000:23:00.0", "renderD129": "0000:43:00.0"}

func (m *walker) gpu(node string) *walkGPU {
	if m.gpus[node] == nil {
		m.gpus[node] = &walkGPU{returned: true}
	}
	return m.gpus[node]
}

func (m *walker) option(name string) string {
	if v, ok := m.options[name]; ok {
		return v
	}
	return walkOptions[name][0]
}

// set records options as the machine should have them: "name='value'...".
func (m *walker) set(args string) {
	for _, f := range regexp.MustCompile(`([a-z-]+)='([^']*)'`).FindAllStringSubmatch(args, -1) {
		m.options[f[1]] = f[2]
	}
}

// step takes one step. Its error is a command that fails and should not, or the reverse.
func (m *walker) step(s walkStep) error {
	command := func(line string) error {
		out, err := m.run("concourse-ci-machine " + line + " </dev/null")
		if blocked := m.full || m.anyAway(); err != nil && !(blocked && strings.Contains(out, "the CI is not ready")) {
			return fmt.Errorf("%w: %s: %s", errStep, line, out)
		}
		return nil
	}
	g := m.gpu(s.args)
	switch s.kind {
	case "set":
		m.set(s.args)
		return command("set " + s.args)
	case "reset":
		delete(m.options, s.args)
		return command("reset " + s.args)
	case "up":
		m.up = true
		return command("up")
	case "down":
		m.up = false
		return command("down")
	case "hide":
		if !g.hidden {
			m.must("mkdir -p /dev/away && mv /dev/dri/" + s.args + " /dev/away/")
			g.hidden, g.returned = true, false
		}
	case "show":
		if g.hidden {
			m.must("mv /dev/away/" + s.args + " /dev/dri/")
			g.hidden, g.forgotten = false, false
		}
	case "lie", "heal":
		g.lies = s.kind == "lie"
		g.returned = g.returned && !g.lies
		errors := 0
		if g.lies {
			g.errors++ // return-gpu ignores the errors until then
			errors = g.errors
		}
		counted(m.unit, pciOf[s.args], errors)
	case "return":
		if !m.worker() || g.hidden || g.lies || g.returned || m.full || m.option("compute-runtime") == "none" {
			return nil
		}
		g.returned = true
		out, err := m.run("concourse-ci-machine return-gpu gpu=" + pciOf[s.args])
		if err != nil && !strings.Contains(out, "it has been in service since") { // nothing noticed its fault
			return fmt.Errorf("%w: return-gpu: %s", errStep, out)
		}
	case "kill":
		m.run("pid=$(" + mainPID(s.args) + ") && [ \"$pid\" -gt 1 ] && kill -KILL $pid") // it may be stopped
	case "cut":
		var lines int
		var words string
		fmt.Sscan(s.args, &lines)
		_, words, _ = strings.Cut(s.args, " ")
		return m.cut(words, lines)
	case "reboot":
		return m.reboot()
	case "fill":
		m.full = true
		m.run("mkdir -p /var/lib/concourse/worker && head -c 3G /dev/zero >/var/lib/concourse/worker/filled") // it ends at the disk's end
	case "free":
		m.full = false
		m.must("rm -f /var/lib/concourse/worker/filled")
	case "wrong":
		before := m.must("cat /etc/concourse-ci-machine/config.yaml")
		if out, err := m.run("concourse-ci-machine " + s.args + " </dev/null"); err == nil {
			return fmt.Errorf("%s: exit 0: %s", s.args, out)
		}
		if m.must("cat /etc/concourse-ci-machine/config.yaml") != before {
			return fmt.Errorf("%s changes the options", s.args)
		}
	case "build":
		return m.build()
	case "begin":
		return m.begin()
	}
	return nil
}

// cut kills a command after some lines of progress. Whether its change took effect shows in
// the file of options, and whether the CI is up in its state.
func (m *walker) cut(words string, lines int) error {
	m.killed(words, lines)
	switch {
	case words == "up", words == "down":
		m.up = !strings.Contains(m.must("cat /var/lib/concourse-ci-machine/machine.json"), `"down":true`)
	default:
		options := m.must("cat /etc/concourse-ci-machine/config.yaml")
		name, value, _ := strings.Cut(strings.TrimPrefix(words, "set "), "=")
		if regexp.MustCompile(`(?m)^` + name + `: *["']?` + regexp.QuoteMeta(strings.Trim(value, "'")) + `["']?$`).MatchString(options) {
			m.set(words)
		}
	}
	return nil
}

// mainPID returns the command that prints the process of a service.
func mainPID(service string) string {
	switch service {
	case "rocm-exporter", "concourse-exporter":
		return "pgrep --oldest --full '/" + service + " '"
	case "postgresql":
		service += "@*-concourse_*.service"
	}
	return "systemctl show --value --property=MainPID '" + service + "'"
}

func (m *walker) reboot() error {
	if err := m.guest.Reboot(m.t.Context()); err != nil {
		return fmt.Errorf("cannot reboot: %w", err)
	}
	return nil
}

func (m *walker) anyAway() bool {
	for _, g := range m.gpus {
		if g.hidden {
			return true
		}
	}
	return false
}

// build runs a task with a GPU, which must succeed if a GPU is usable.
func (m *walker) build() error {
	f := m.flyIfUsable()
	if f == nil {
		return nil
	}
	out, err := f.run(m.task(f, "ls /dev/dri | grep renderD")...)
	if err != nil || !strings.Contains(out, "renderD") {
		return fmt.Errorf("a build fails: %w: %s", err, out)
	}
	return nil
}

// begin begins a build that has a GPU during the next steps. They may end it.
func (m *walker) begin() error {
	if f := m.flyIfUsable(); f != nil {
		c := f.command(m.task(f, "ls /dev/dri; sleep 20")...)
		if err := c.Start(); err != nil {
			return err
		}
		m.t.Cleanup(func() {
			c.Process.Kill()
			c.Wait()
		})
	}
	return nil
}

func (m *walker) task(f *fly, script string) []string {
	return []string{"execute", "--tag", "gpu", "-c", f.write("task.yml", fmt.Sprintf(taskFile, script))}
}

// flyIfUsable returns a fly of the machine if its tasks can get a GPU.
func (m *walker) flyIfUsable() *fly {
	usable := false
	for node := range pciOf {
		g := m.gpu(node)
		usable = usable || !g.hidden && g.returned
	}
	if !m.worker() || m.full || !usable || m.option("compute-runtime") == "none" {
		return nil
	}
	_, password, _ := strings.Cut(m.must("concourse-ci-machine get-admin-password"), "password: ")
	password, _, _ = strings.Cut(password, "\n")
	return newFly(m.t, m.t.TempDir(), "http://"+m.Model.Address+":"+m.option("web-port"), password)
}
