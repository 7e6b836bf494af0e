package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// pebble runs the real Pebble with the real owner of the GPUs and exporter. The demo starts it instead of systemd.
type pebble struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when Pebble ended
	addr  string        // address of the exporter
	err   error
}

const (
	pebbleDir = "/var/lib/concourse-ci-machine/pebble"
	pebbleLog = "pebble.log" // in the world's folder
)

// onUnit starts the real Pebble when the charm starts its unit.
func (d *demo) onUnit(unit string, up bool) {
	if unit != "concourse-pebble.service" || !up || d.pebble != nil {
		return
	}
	d.pebble = &pebble{}
	d.pebble.err = d.pebble.start(d.ctx, d.world)
}

// start runs Pebble with the charm's layer and a separate one that moves paths and port
// into the throwaway root.
func (p *pebble) start(ctx context.Context, w *sandbox.World) error {
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
	if err := w.Root.WriteFile(pebbleDir+"/layers/900-sandbox.yaml", moved, 0o644); err != nil {
		return err
	}
	// Pebble's state belongs to the charm and only root reads it. Here the service may run
	// as nobody and needs only its program.
	p.cmd = exec.Command(w.Root.Path("/opt/concourse-ci-machine/bin/pebble"), "run", "--create-dirs")
	p.cmd.Env = append(os.Environ(), "PEBBLE="+w.Root.Path(pebbleDir), "PEBBLE_PERSIST=never")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	log, err := os.Create(filepath.Join(w.Dir, pebbleLog))
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.ended = make(chan struct{})
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	return p.ready(ctx, w)
}

// ready waits as systemd does for a unit of Type=notify, and then for the exporter and the
// first reading of the GPUs.
func (p *pebble) ready(ctx context.Context, w *sandbox.World) error {
	for range 200 {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		state, err := resource.PebbleServices(ctx, w.Root, pebbleDir+"/.pebble.socket")
		if err == nil && state.Services[role.ExporterService] == "active" && w.Root.Exists(role.GPUReport) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	log, err := os.ReadFile(filepath.Join(w.Dir, pebbleLog))
	if err != nil {
		return err
	}
	var wrote strings.Builder
	for line := range strings.Lines(string(log)) {
		if !strings.Contains(line, "GET /v1/") { // those are the requests above
			wrote.WriteString(line)
		}
		if wrote.Len() > 1000 {
			break
		}
	}
	return fmt.Errorf("Pebble did not start its services within 10 s; it wrote:\n%s", strings.TrimSpace(wrote.String()))
}

// moveLayer returns the services that read GPUs, with their paths below root and another
// port. The owner of the GPUs runs no watcher: that one and the other services read
// processes, so they stay off on this machine.
func moveLayer(layer []byte, root, addr string) ([]byte, error) {
	var l struct {
		Summary  string                    `yaml:"summary"`
		Services map[string]map[string]any `yaml:"services"`
		Checks   map[string]map[string]any `yaml:"checks"`
	}
	if err := yaml.Unmarshal(layer, &l); err != nil {
		return nil, err
	}
	commands := map[string]string{
		role.ExporterService: fmt.Sprintf("serve --web.listen-address=%s --path.root=%s", addr, root),
		role.GPUService:      fmt.Sprintf("write-gpus %s --path.root=%s", role.GPUReport, root),
	}
	for name, other := range l.Services {
		command, ok := other["command"].(string)
		if !ok || commands[name] == "" {
			other["startup"] = "disabled"
			continue
		}
		other["command"] = root + strings.Fields(command)[0] + " " + commands[name]
		if os.Geteuid() != 0 {
			delete(other, "user")
			delete(other, "group")
		}
	}
	for name, other := range l.Checks {
		if name != role.ExporterService {
			other["startup"] = "disabled"
		}
	}
	c := l.Checks[role.ExporterService]
	if l.Services[role.ExporterService] == nil || c == nil {
		return nil, errors.New("cannot read the charm's Pebble layer: no service or check rocm-exporter")
	}
	c["http"] = map[string]string{"url": "http://" + addr + "/-/healthy"}
	c["period"], c["timeout"] = "200ms", "150ms"
	return yaml.Marshal(l)
}

// stop stops Pebble, which stops its services first.
func (p *pebble) stop() error {
	if p.cmd == nil || p.cmd.Process == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(20 * time.Second):
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
		return errors.New("Pebble did not stop within 20 s and was killed")
	}
}
