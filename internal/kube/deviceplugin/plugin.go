package deviceplugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// plugin holds the state of the running program.
type plugin struct {
	options
	*Journal
	now func() time.Time

	// Used only by turn.
	services map[string]*service // by resource
	reported map[evidence]bool   // the Events that the cluster has
	sending  bool                // since an earlier round
	outcomes chan outcome        // of sending
	tried    time.Time           // the last try to write Events

	mu   sync.Mutex // protects the following, and is locked while leases change
	seen machine
	uses []use // the kubelet's last answer; nil if it did not answer

	asked   time.Time             // for the kubelet's notes, by turn
	before  os.FileInfo           // the notes at that time; nil if there were none
	awaited map[awaited]time.Time // when turn first saw each
}

func newPlugin(o options, log io.Writer) *plugin {
	return &plugin{options: o, Journal: NewJournal(log, "pods"), now: time.Now, services: map[string]*service{},
		reported: map[evidence]bool{}, outcomes: make(chan outcome, 1)}
}

func (p *plugin) socketDir() string { return filepath.Join(p.kubelet, "device-plugins") }

// turn does one round of work. A problem that may disappear in a second is not an error,
// but is logged once.
func (p *plugin) turn(ctx context.Context) error {
	devices := p.look(ctx)
	named, err := resources(p.strategy, devices)
	p.Report("names", err)
	if st, err := os.Stat(p.socketDir()); err != nil || !st.IsDir() {
		p.Report("kubelet", fmt.Errorf("no kubelet has run here: missing %s", p.socketDir()))
		p.close()
		return nil
	}
	for name, s := range p.services {
		if _, there := named[name]; !there {
			s.stop()
			delete(p.services, name)
		}
	}
	var unregistered error
	for name, devices := range named {
		if p.services[name] == nil {
			p.services[name] = newService(p, name)
		}
		s := p.services[name]
		s.offer(listed(devices))
		if err := s.checkRival(); err != nil {
			s.stop()
			unregistered = err
			continue
		}
		switch err := s.listen(); {
		case errors.Is(err, fs.ErrNotExist): // a kubelet starts, which removes the sockets
			unregistered = err
			continue
		case err != nil:
			return err
		}
		if s.needsRegistration(p.now()) {
			unregistered = errors.Join(unregistered, s.register(ctx))
		}
	}
	p.Report("kubelet", unregistered)
	p.mu.Lock()
	err = p.settle(ctx)
	p.mu.Unlock()
	p.Report("leases", err)
	p.reportEvidence(ctx)
	return nil
}

// look updates the view of the machine. After an error the previous one stays.
func (p *plugin) look(ctx context.Context) []device {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, err := look(p.root, p.config, p.now, p.seen)
	var unknown error
	if err == nil {
		unknown, err = m.share(p.options)
	}
	if err == nil {
		p.seen = m
		p.findOtherUse(ctx)
	}
	p.Report("GPUs", cmp.Or(err, unknown))
	for _, d := range p.seen.devices {
		p.LogChange(d.id(), d.label(), d.state())
	}
	return slices.Clone(p.seen.devices)
}

// close ends all services, so that the kubelet drops their GPUs.
func (p *plugin) close() {
	for name, s := range p.services {
		s.stop()
		delete(p.services, name)
	}
}

// interval is the time between two looks at the machine, the leases and the kubelet.
const interval = time.Second

// Run runs the program until ctx is done. It returns the exit status: 0 after a normal end,
// help or version, 1 after a failure, and 2 for a wrong command line.
func Run(ctx context.Context, version string, args []string, stdout, stderr io.Writer) int {
	c := newCommand(version, func(o options) error { return newPlugin(o, stderr).serve(ctx) })
	return commandline.Run(ctx, c, args, stdout, stderr)
}

// serve does a round each second, and removes its sockets at the end.
func (p *plugin) serve(ctx context.Context) error {
	defer p.close()
	tick := time.Tick(interval)
	for {
		if err := p.turn(ctx); err != nil {
			return err
		}
		p.NotifySystemd("the kubelet has the GPUs")
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
	}
}

// options holds the command line.
type options struct {
	root     host.Root
	kubelet  string // the kubelet's directory
	devices  string // auto, cdi or nodes
	strategy string // single or mixed
	replicas int    // of a shared GPU; 1 for none
	shared   string // which GPUs are shared
	config   string // of the wrapper; "" for none
}

// newCommand returns the program's command line, which calls run.
func newCommand(version string, run func(o options) error) *cobra.Command {
	var o options
	c := &cobra.Command{Use: "gpu-device-plugin [flags]", Version: version, Args: commandline.NoArgs,
		Long: "Offers this machine's AMD GPUs to its kubelet as amd.com/gpu, until SIGTERM. If the machine is a unit " +
			"with gpu-sharing=exclusive, a GPU is in one pod or one task at a time.",
		Example: "gpu-device-plugin --resource-naming-strategy=mixed"}
	fs := c.Flags()
	fs.StringVar((*string)(&o.root), "path.root", "/", "`directory` to read GPUs, descriptions and settings below, as "+
		"the machine's root")
	fs.StringVar(&o.kubelet, "kubelet-dir", "/var/lib/kubelet",
		"the kubelet's `directory` (its --root-dir), which has device-plugins and pod-resources")
	fs.StringVar(&o.devices, "devices", auto, "`how` containers get GPUs: cdi (names of /etc/cdi/amd.json), "+
		"nodes (paths below /dev), or auto, which gives both")
	fs.StringVar(&o.strategy, "resource-naming-strategy", single,
		"`names` of GPUs that are partitioned: single (amd.com/gpu) or mixed (amd.com/cpx_nps4 and its like)")
	fs.IntVar(&o.replicas, "replicas", 1, "offer each shared GPU to `N` pods at the same time, as amd.com/gpu.shared; the "+
		"GPU divides its time between them, and nothing limits their memory")
	fs.StringVar(&o.shared, "shared-gpus", "all", "`GPUs` that --replicas shares: all, or indexes, PCI addresses and "+
		"unique ids with commas; the others stay amd.com/gpu")
	fs.StringVar(&o.config, "config", oci.DefaultConfig, "`file` with a unit's GPUs and leases; if it is missing or "+
		"empty, all GPUs are offered and nothing is leased")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return commandline.Wrong(c, err)
		}
		return run(o)
	}
	return c
}

func (o options) check() error {
	switch {
	case !slices.Contains([]string{auto, byCDIName, byNode}, o.devices):
		return fmt.Errorf("invalid value %q for flag --devices: %s", o.devices,
			strings.Join([]string{auto, byCDIName, byNode}, ", "))
	case !slices.Contains([]string{single, mixed}, o.strategy):
		return fmt.Errorf("invalid value %q for flag --resource-naming-strategy: %s, %s", o.strategy, single, mixed)
	case o.replicas < 1 || o.replicas > MaxReplicas:
		return fmt.Errorf("invalid value %d for flag --replicas: want 1 to %d", o.replicas, MaxReplicas)
	case !filepath.IsAbs(o.kubelet):
		return fmt.Errorf("invalid value %q for flag --kubelet-dir: want an absolute path", o.kubelet)
	}
	return nil
}
