//go:build e2e

package concourse

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/watcher"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

const slowRule = 5 * time.Second // a rule that is broken for longer is printed

// holds waits until the machine is as it should be, and returns the rule that stays broken.
func (m *walker) holds(after string) error {
	var err error
	var reported string
	begin := time.Now()
	for ; ; time.Sleep(500 * time.Millisecond) {
		if err := m.repair(); err != nil {
			return err
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

// repair does what the timer does every five minutes. It may fail if the disk is full.
func (m *walker) repair() error {
	out, err := m.run("systemctl reset-failed concourse-ci-machine.service; systemctl start concourse-ci-machine.service")
	if err != nil && !m.full {
		return fmt.Errorf("cannot repair the machine: %s\n%s", out, m.said("concourse-ci-machine"))
	}
	if m.option("mode") == "web" && m.up {
		m.runtime = ""
	}
	if runtime := m.option("compute-runtime"); m.worker() && !m.full && runtime != m.runtime {
		m.runtime = runtime
		for _, g := range m.gpus {
			g.forgotten = g.hidden
		}
	}
	return nil
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
	// A worker that is stopped while the disk is full ends with an error.
	if failed := m.must("systemctl --failed --no-legend"); failed != "" && !m.full && m.up {
		return fmt.Errorf("failed units: %s", failed)
	}
	return nil
}

// answers asks each service on its port.
func (m *walker) answers() error {
	at := "http://" + m.Model.Address + ":"
	for url, up := range map[string]bool{
		at + m.option("web-port") + "/api/v1/info": m.web(),
		at + "9401/-/healthy":                      m.worker() && (m.hasGPUs() || m.option("task-record-size") != "0"),
		at + "9358/-/healthy":                      m.web() && m.option("enable-metrics") == "true",
	} {
		if got := answersNow(url); got != up && !m.full {
			return fmt.Errorf("%s answers: %t, should: %t", url, got, up)
		}
	}
	return nil
}

// hasGPUs reports whether the exporter has GPUs to show.
func (m *walker) hasGPUs() bool {
	for node := range pciOf {
		if !m.gpu(node).hidden && m.option("compute-runtime") != "none" {
			return true
		}
	}
	return false
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
	if err != nil || !strings.Contains(out, "nothing to do") {
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
		if m.worker() && !strings.Contains(out, "disk full: ") {
			return fmt.Errorf("the disk is full, and the status is %q", out)
		}
		return nil
	}
	want := "active: Web server and worker ready (v8.2.5)"
	if !m.worker() {
		want = strings.Replace(want, " and worker", "", 1)
	}
	there, forgotten := 0, false
	for node := range pciOf {
		if !m.gpu(node).hidden {
			there++
		}
		forgotten = forgotten || m.gpu(node).forgotten
	}
	gpus := 0
	if f := gpusOf.FindStringSubmatch(line); f != nil {
		fmt.Sscan(f[1], &gpus)
	}
	runtime := m.option("compute-runtime")
	if !m.worker() || runtime == "none" {
		there = 0
	} else if forgotten && strings.HasPrefix(line, "blocked: gpu-device-ids") {
		return nil
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
		if g.hidden {
			continue
		}
		i := slices.IndexFunc(s.Service, func(got watcher.ServiceStatus) bool { return got.Name == pci })
		if i < 0 {
			return fmt.Errorf("GPU %s is not listed: %s", pci, out)
		}
		got := s.Service[i]
		in := got.State == quarantine.InService
		switch {
		case !in && g.returned:
			return fmt.Errorf("GPU %s had no fault, and is %s: %s", pci, got.State, got.Why)
		case in && g.lies && auto:
			return fmt.Errorf("GPU %s has lost data, and is in service", pci)
		}
	}
	return nil
}
