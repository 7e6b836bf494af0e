package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gopkg.in/yaml.v3"

	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/sandbox"
)

// pebble is the real Pebble with the real exporter, started where systemd
// would start it.
type pebble struct {
	cmd  *exec.Cmd
	done chan error
	addr string // where the exporter listens
	err  error
}

const pebbleDir = "/var/lib/concourse-charm/pebble"

// onUnit starts the real Pebble when the charm starts its unit.
func (d *demo) onUnit(unit string, up bool) {
	if unit != "concourse-pebble.service" || !up || d.pebble != nil {
		return
	}
	d.pebble = &pebble{}
	d.pebble.err = d.pebble.start(d.world)
}

// start runs Pebble on the layer that the charm wrote and one of the demo's
// own, which moves paths and port into the throwaway root.
func (p *pebble) start(w *sandbox.World) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.addr = l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	layer, err := w.Root.ReadFile(pebbleDir + "/layers/001-rocm-exporter.yaml")
	if err != nil {
		return err
	}
	moved, err := moveLayer(layer, string(w.Root), p.addr)
	if err != nil {
		return err
	}
	if err := w.Root.WriteFile(pebbleDir+"/layers/002-sandbox.yaml", moved, 0o644); err != nil {
		return err
	}
	// Pebble's state is the charm's, readable by root alone; here the service
	// may run as nobody and needs to get at its program only.
	p.cmd = exec.Command(w.Root.Path("/opt/concourse-ci-machine/bin/pebble"), "run", "--create-dirs")
	p.cmd.Env = append(os.Environ(), "PEBBLE="+w.Root.Path(pebbleDir), "PEBBLE_PERSIST=never")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	log, err := os.Create(filepath.Join(w.Dir, "pebble.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.done = make(chan error, 1)
	go func() { p.done <- p.cmd.Wait() }()
	return p.ready(w)
}

// ready waits as systemd does for a unit of Type=notify, and on until the
// exporter answers.
func (p *pebble) ready(w *sandbox.World) error {
	for range 200 {
		state, err := resource.PebbleServices(context.Background(), w.Root, pebbleDir+"/.pebble.socket")
		if err == nil && state.Services["rocm-exporter"] == "active" {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("Pebble did not start its service within 10 s")
}

// moveLayer is the same service with its paths below root and another port.
func moveLayer(layer []byte, root, addr string) ([]byte, error) {
	var l struct {
		Summary  string                    `yaml:"summary"`
		Services map[string]map[string]any `yaml:"services"`
		Checks   map[string]map[string]any `yaml:"checks"`
	}
	if err := yaml.Unmarshal(layer, &l); err != nil {
		return nil, err
	}
	s, c := l.Services["rocm-exporter"], l.Checks["rocm-exporter"]
	command, ok := s["command"].(string)
	if !ok || c == nil {
		return nil, errors.New("cannot read the charm's Pebble layer: no service or check rocm-exporter")
	}
	words := strings.Fields(command)
	s["command"] = fmt.Sprintf("%s%s --web.listen-address=%s --path.root=%s", root, words[0], addr, root)
	if os.Geteuid() != 0 {
		delete(s, "user")
		delete(s, "group")
	}
	c["http"] = map[string]string{"url": "http://" + addr + "/-/healthy"}
	c["period"], c["timeout"] = "200ms", "150ms"
	return yaml.Marshal(l)
}

// stop ends Pebble, which ends its services first.
func (p *pebble) stop() error {
	if p.cmd == nil || p.cmd.Process == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(20 * time.Second):
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
		return errors.New("Pebble did not stop within 20 s and was killed")
	}
}

// shown is what the table has of all the exporter's series.
var shown = []string{"rocm_gpu_info", "rocm_gpu_temperature", "rocm_gpu_utilization", "rocm_memory_utilization",
	"rocm_memory_used", "rocm_memory_total", "rocm_power_usage", "rocm_gpu_health_score", "rocm_exporter_device_up"}

// metrics prints a table from the exporter's /metrics.
func (d *demo) metrics() error {
	d.title("the real Pebble runs the real exporter on the fixture")
	if d.pebble == nil {
		return errors.New("the charm did not start Pebble")
	}
	if d.pebble.err != nil {
		return fmt.Errorf("cannot start Pebble: %w", d.pebble.err)
	}
	text, err := d.scrape()
	if err != nil {
		log, rerr := os.ReadFile(filepath.Join(d.world.Dir, "pebble.log"))
		return errors.Join(fmt.Errorf("cannot scrape the exporter: %w\n%s", err, log), rerr)
	}
	cmd := exec.Command(d.world.Root.Path("/opt/concourse-ci-machine/bin/pebble"), "services")
	cmd.Env = []string{"PEBBLE=" + d.world.Root.Path(pebbleDir)}
	services, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot ask Pebble: %w: %s", err, services)
	}
	d.say("$ pebble services\n%s", strings.TrimRight(string(services), "\n"))
	d.say("$ curl http://%s/metrics", d.pebble.addr)
	var lines []string
	series := 0
	for sc := bufio.NewScanner(strings.NewReader(text)); sc.Scan(); {
		name, _, _ := strings.Cut(sc.Text(), "{")
		if !strings.HasPrefix(name, "#") {
			series++
		}
		if slices.Contains(shown, name) {
			lines = append(lines, sc.Text())
		}
	}
	sort.Strings(lines)
	for _, row := range table(lines) {
		d.say("  %-24s %s", row[0], row[1])
	}
	d.say("  and %d series more", series-len(lines))
	r, err := d.world.Hook("update-status")
	if err != nil || r.Code != 0 {
		return fmt.Errorf("cannot run update-status: %v %s", err, r.Output)
	}
	d.say("status: %s: %s", r.Status().Status, r.Status().Message)
	return nil
}

// table turns series into rows of a name, or a label of the info series, and a value.
func table(series []string) (rows [][2]string) {
	for _, s := range series {
		name, rest, _ := strings.Cut(s, "{")
		labels, value, ok := strings.Cut(rest, "} ")
		if !ok {
			continue
		}
		if name == "rocm_gpu_info" {
			for l := range strings.SplitSeq(labels, ",") {
				k, v, _ := strings.Cut(l, "=")
				if v = strings.Trim(v, `"`); v != "" {
					rows = append(rows, [2]string{k, v})
				}
			}
			continue
		}
		rows = append(rows, [2]string{name, withUnit(name, value)})
	}
	return rows
}

// withUnit makes a value readable.
func withUnit(name, value string) string {
	v, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil || strings.HasPrefix(name, "rocm_exporter"):
		return value
	case strings.HasSuffix(name, "temperature"):
		return fmt.Sprintf("%g degC", v)
	case strings.HasSuffix(name, "utilization"):
		return fmt.Sprintf("%g %%", v)
	case strings.HasPrefix(name, "rocm_memory"):
		return fmt.Sprintf("%.1f GiB", v/(1<<30))
	case strings.HasSuffix(name, "power_usage"):
		return fmt.Sprintf("%g W", v)
	}
	return value
}

// scrape waits until the exporter answers, 10 s at most.
func (d *demo) scrape() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+d.pebble.addr+"/metrics", nil)
		if err != nil {
			return "", err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			body, rerr := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
			resp.Body.Close()
			return string(body), rerr
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
