//go:build e2e

package concourse

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"concourse-ci-machine/internal/charm/watcher"
	"concourse-ci-machine/internal/pool/quarantine"
)

const slowRule = 5 * time.Second // a rule that is broken for longer is printed

// walker is a machine on a walk, with the state that it should have.
type walker struct {
	*unit
	real    bool
	up      bool
	full    bool
	options map[string]string // that the walk set; the others have their default
	gpus    map[string]*walkGPU
	others  string // what belongs to the operator, at the beginning
}

// walkGPU is what a walk did to a GPU, by the name of its render node.
type walkGPU struct {
	hidden   bool
	lies     bool
	returned bool // to service, since it was hidden or lied; a machine that just began has all
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
			g.hidden = false
		}
	case "lie", "heal":
		g.lies = s.kind == "lie"
		g.returned = g.returned && !g.lies
		counted(m.unit, pciOf[s.args], map[bool]int{true: 1}[g.lies])
	case "return":
		if !m.worker() || g.hidden || g.lies || g.returned || m.full || m.option("compute-runtime") == "none" {
			return nil
		}
		g.returned = true
		return command("return-gpu gpu=" + pciOf[s.args])
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
	}
	return nil
}

// cut kills a command after some lines of progress. Whether its change took effect shows in
// the file of options, and whether the CI is up in its state.
func (m *walker) cut(words string, lines int) error {
	m.killed(words, lines)
	switch {
	case words == "up", words == "down":
		m.up = !strings.Contains(m.must("cat /var/lib/concourse-machine/machine.json"), `"down":true`)
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

// holds waits until the machine is as it should be, and returns the rule that stays broken.
func (m *walker) holds(after string) error {
	var err error
	var reported string
	begin := time.Now()
	for ; ; time.Sleep(500 * time.Millisecond) {
		if !m.full { // what the timer does every five minutes
			if out, err := m.run("systemctl reset-failed concourse-ci-machine.service; systemctl start concourse-ci-machine.service"); err != nil {
				return fmt.Errorf("cannot repair the machine: %s\n%s", out, m.said("concourse-ci-machine"))
			}
		}
		if err = m.broken(); err == nil || time.Since(begin) > patience {
			return err
		}
		if now := err.Error(); now != reported && time.Since(begin) > slowRule {
			reported = now
			m.t.Logf("after %s not yet: %s", after, now)
		}
	}
}

// broken returns the first rule that the machine breaks now.
func (m *walker) broken() error {
	if now := m.must(foreignState); now != m.others {
		return fmt.Errorf("files of others changed:\n%s\nbefore:\n%s", now, m.others)
	}
	for _, rule := range []func() error{m.services, m.answers, m.planned, m.statusIsTrue, m.quarantines} {
		if err := rule(); err != nil {
			return err
		}
	}
	return nil
}

func (m *walker) web() bool    { return m.up }
func (m *walker) worker() bool { return m.up && m.option("mode") == "all" }

// services compares which services run with those that should.
func (m *walker) services() error {
	want := map[string]bool{"concourse-server": m.web(), "concourse-worker": m.worker(), "postgresql@*-concourse_*.service": true,
		"concourse-ci-machine.timer": m.up, "operators": true}
	for name, up := range want {
		if m.full {
			break // what needs the disk may fail
		}
		if got := m.must("systemctl show --value --property=ActiveState '" + name + "'"); (got == "active") != up {
			return fmt.Errorf("%s is %s, up should be %t", name, got, up)
		}
	}
	if failed := m.must("systemctl --failed --no-legend"); failed != "" && !m.full {
		return fmt.Errorf("failed units: %s", failed)
	}
	return nil
}

// answers asks each service on its port.
func (m *walker) answers() error {
	at := "http://" + m.Model.Address + ":"
	for url, up := range map[string]bool{
		at + m.option("web-port") + "/api/v1/info": m.web(),
		at + "9401/-/healthy":                      m.worker(),
		at + "9358/-/healthy":                      m.web() && m.option("enable-metrics") == "true",
	} {
		if got := answersNow(url); got != up && !m.full {
			return fmt.Errorf("%s answers: %t, should: %t", url, got, up)
		}
	}
	return nil
}

func answersNow(url string) bool {
	client := http.Client{Timeout: patience}
	resp, err := client.Get(url)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusOK
}

// planned requires that another hook would change nothing.
func (m *walker) planned() error {
	if !m.up || m.full {
		return nil
	}
	out, err := m.run("concourse-ci-machine plan")
	if err != nil || !strings.HasSuffix(out, "nothing to do") {
		return fmt.Errorf("a second hook would change something (%v):\n%s", err, out)
	}
	return nil
}

var gpusOf = regexp.MustCompile(`\(GPU: (\d)x AMD`)

// statusIsTrue compares each fact of the status with the part itself.
func (m *walker) statusIsTrue() error {
	out, err := m.run("concourse-ci-machine status")
	line, rest, _ := strings.Cut(out, "\n")
	if !m.up {
		if err == nil || !strings.HasPrefix(line, "down: ") {
			return fmt.Errorf("the CI is down, and the status is %q (%v)", line, err)
		}
		return nil
	}
	if m.full {
		if err == nil && !strings.Contains(line, "disk") {
			return fmt.Errorf("the disk is full, and the status is %q", line)
		}
		return nil
	}
	want := "active: Web server and worker ready (v8.2.5)"
	if !m.worker() {
		want = strings.Replace(want, " and worker", "", 1)
	}
	there := 0
	for node := range pciOf {
		if !m.gpu(node).hidden {
			there++
		}
	}
	gpus := 0
	if f := gpusOf.FindStringSubmatch(line); f != nil {
		fmt.Sscan(f[1], &gpus)
	}
	runtime := m.option("compute-runtime")
	if !m.worker() || runtime == "none" {
		there = 0
	} else if there == 0 && runtime == "rocm" {
		want = "blocked: "
	}
	url := "http://" + m.Model.Address + ":" + m.option("web-port")
	if at := strings.Index(line, "http://"); at >= 0 && !strings.HasPrefix(line[at:]+" ", url+" ") {
		return fmt.Errorf("the web is at %s, and the status is %q", url, line)
	}
	if !strings.HasPrefix(line, want) || (err == nil) != strings.HasPrefix(line, "active") {
		return fmt.Errorf("the status is %q (%v), should begin with %q\n%s", line, err, want, rest)
	}
	if gpus != there {
		return fmt.Errorf("the status has %d GPUs, should have %d: %q", gpus, there, line)
	}
	return nil
}

// quarantines requires that exactly the GPUs with faults are quarantined, and that no lease has
// lost its holder.
func (m *walker) quarantines() error {
	if !m.worker() || m.full || m.option("compute-runtime") == "none" {
		return nil
	}
	out, err := m.run("concourse-ci-machine gpu status --json")
	var s struct {
		GPUs []struct {
			PCI       string
			Held      bool
			PID       int
			Container string
		}
		Service []watcher.ServiceStatus
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &s)
	}
	if err != nil {
		return fmt.Errorf("gpu status: %w: %s", err, out)
	}
	for _, g := range s.GPUs {
		if !g.Held || g.PID == 0 {
			continue
		}
		if _, err := m.run(fmt.Sprintf("test -e /proc/%d", g.PID)); err != nil {
			return fmt.Errorf("GPU %s is leased to %s, and its process %d has ended", g.PCI, g.Container, g.PID)
		}
	}
	auto := m.option("gpu-quarantine") == "auto"
	for node, pci := range pciOf {
		g := m.gpu(node)
		for _, got := range s.Service {
			in := got.State == quarantine.InService
			switch {
			case got.Name != pci || g.hidden:
			case !in && g.returned:
				return fmt.Errorf("GPU %s had no fault, and is %s: %s", pci, got.State, got.Why)
			case in && g.lies && auto:
				return fmt.Errorf("GPU %s has lost data, and is in service", pci)
			}
		}
	}
	return nil
}

// build runs a task with a GPU, which must succeed if a GPU is usable.
func (m *walker) build() error {
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
	f := newFly(m.t, m.t.TempDir(), "http://"+m.Model.Address+":"+m.option("web-port"), password)
	out, err := f.run("execute", "--tag", "gpu", "-c", f.write("task.yml", fmt.Sprintf(taskFile, "ls /dev/dri | grep renderD")))
	if err != nil || !strings.Contains(out, "renderD") {
		return fmt.Errorf("a build fails: %w: %s", err, out)
	}
	return nil
}
