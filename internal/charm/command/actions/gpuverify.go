package actions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/drm"
)

// NodeCheck holds the result of opening one device node.
type NodeCheck struct {
	Node   string `json:"node"`
	GPU    string `json:"gpu,omitempty"` // name and PCI address; "" for /dev/kfd
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // what works, or why the node does not work
}

const (
	// probeTimeout bounds one node. To open a node wakes a sleeping GPU, which takes a
	// second or two. A GPU in reset answers after the reset, or never.
	probeTimeout = 10 * time.Second
	// maxProbes bounds the processes on machines with many GPUs.
	maxProbes = 8
)

// VerifyGPUs opens /dev/kfd and every render node as a task's program would, and writes the
// results. It fails if a node does not work, or without a node.
func (c *Actions) VerifyGPUs(ctx context.Context, w io.Writer, f term.Format) error {
	inv, err := gpu.Discover(c.Host.Root)
	if err != nil {
		return err
	}
	checks := c.verify(ctx, inv)
	var failed []string
	for _, check := range checks {
		if !check.OK {
			failed = append(failed, check.Node+": "+check.Detail)
		}
	}
	if err := writeChecks(w, f, checks, len(checks) > 0 && len(failed) == 0); err != nil {
		return err
	}
	switch {
	case len(checks) == 0:
		return errors.New("cannot verify: No GPU detected; " + c.Commands().Name() + " gpu list shows why")
	case len(failed) > 0:
		return fmt.Errorf("cannot use every GPU node: %d of %d failed: %s", len(failed), len(checks),
			strings.Join(failed, "; "))
	}
	return nil
}

func writeChecks(w io.Writer, f term.Format, checks []NodeCheck, ok bool) error {
	if f.JSON {
		return term.JSON(w, struct {
			OK     bool        `json:"ok"`
			Checks []NodeCheck `json:"checks"`
		}{ok, append([]NodeCheck{}, checks...)})
	}
	var b strings.Builder
	for _, c := range checks {
		verdict := f.Column(term.Green, "ok", 6)
		if !c.OK {
			verdict = f.Column(term.Red, "FAILED", 6)
		}
		line := fmt.Sprintf("%s  %-20s  %s", verdict, c.Node, c.GPU)
		fmt.Fprintf(&b, "%s\n        %s\n", strings.TrimRight(line, " "), c.Detail)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// verify opens /dev/kfd if a GPU requires it, and each render node. A GPU that was passed
// through with an unusable node is a failure too.
func (c *Actions) verify(ctx context.Context, inv gpu.Inventory) []NodeCheck {
	var checks []NodeCheck
	var work []func()
	try := func(node, name, driver string) {
		i := len(checks)
		checks = append(checks, NodeCheck{Node: node, GPU: name})
		work = append(work, func() { checks[i].Detail, checks[i].OK = c.tryNode(ctx, node, driver) })
	}
	var broken []NodeCheck
	kfd := slices.ContainsFunc(inv.GPUs, func(g gpu.GPU) bool { return g.Vendor.Has(gpu.KFDNode) })
	for _, l := range inv.Unusable {
		if worker.Unusable(l) {
			kfd = kfd || l.Vendor.Has(gpu.KFDNode)
			broken = append(broken, NodeCheck{Node: "GPU " + l.PCI, GPU: l.Model, Detail: whyUnusable(c.Commands(), l)})
		}
	}
	switch {
	case kfd && inv.KFD.Usable():
		try(inv.KFD.Node.Path, "", "")
	case kfd:
		checks = append(checks, NodeCheck{Node: "/dev/kfd", Detail: inv.KFD.Text()})
	}
	for _, g := range inv.GPUs {
		try(g.Render.Path, g.Model+"  "+g.PCI, g.Vendor.Traits().Drivers[g.Driver])
	}
	var all sync.WaitGroup
	room := make(chan struct{}, maxProbes)
	for _, do := range work {
		room <- struct{}{}
		all.Go(func() { do(); <-room })
	}
	all.Wait()
	return append(checks, broken...)
}

// tryNode returns what works with a node, or why it does not. driver is the required DRM
// driver, "" for a node that is not a DRM node.
func (c *Actions) tryNode(ctx context.Context, node, driver string) (detail string, ok bool) {
	probe := c.Probe
	if probe == nil {
		probe = func(_ context.Context, node string) (string, error) { return ProbeNode(c.Host.Root, node) }
	}
	got, err := probe(ctx, node)
	var command *host.CommandError
	switch name, _, _ := strings.Cut(got, " "); {
	case errors.As(err, &command) && command.Timeout > 0:
		return fmt.Sprintf("the kernel does not answer within %s: the GPU may hang; see %s",
			command.Timeout, c.Commands().Explain(2)), false
	case errors.As(err, &command) && command.Stderr != "":
		return command.LastLine(), false
	case err != nil:
		return err.Error(), false
	case driver == "":
		return "opens for reading and writing", true
	case name != driver:
		return fmt.Sprintf("it is a node of driver %s, but sysfs shows %s", got, driver), false
	}
	return "answers: DRM driver " + got, true
}

// ProbeNode opens a node and returns its DRM driver's name and version, "" for a node
// outside /dev/dri. It may hang in the kernel, beyond any signal. Its process cannot end
// then: see NewProbe.
func ProbeNode(r host.Root, node string) (string, error) {
	if !strings.HasPrefix(node, "/dev/dri/") {
		return "", addHint(drm.Open(r.Path(node)))
	}
	v, err := drm.Ask(r.Path(node))
	if err != nil {
		return "", addHint(err)
	}
	return v.String(), nil
}

// addHint adds the remedy if the kernel denies access.
func addHint(err error) error {
	switch {
	case err == nil || !errors.Is(err, fs.ErrPermission):
		return err
	case os.Geteuid() != 0:
		return fmt.Errorf("%w; run it with sudo", err)
	case errors.Is(err, unix.EPERM): // the device cgroup's error for root
		return fmt.Errorf(
			"%w; this container may not use the device: pass it through again, or restart the container",
			err)
	}
	return err
}

// NewProbe opens each node in a separate process, argv with the node's name added. A node
// that hangs blocks that process and not this one, which Juju waits for.
func NewProbe(r host.Runner, argv ...string) func(context.Context, string) (string, error) {
	return func(ctx context.Context, node string) (string, error) {
		out, err := r.Run(ctx, host.Command{
			Argv: append(append([]string{}, argv...), node), ReadOnly: true, Deadline: probeTimeout,
		})
		return strings.TrimSpace(string(out)), err
	}
}
