package actions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/charm"
	"concourse-ci-machine/internal/config"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/juju"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/role"
	"concourse-ci-machine/internal/term"
)

// ShowPlan prints what the next hook would do, from what Juju said in the last
// one. It changes nothing.
func (c *Actions) ShowPlan(ctx context.Context, w io.Writer) error {
	facts, err := model.Load(c.Host.Root)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("cannot plan: %s is readable by root only; run it with sudo", model.FactsFile)
	}
	if err != nil {
		return err
	}
	if facts.Unit == "" {
		return errors.New("cannot plan: no hook has run on this machine yet")
	}
	c.Event = juju.Event{Name: "update-status", Unit: facts.Unit}
	text, _, err := c.planText(ctx)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// planText is the plan as people read it, and its number of steps.
func (c *Actions) planText(ctx context.Context) (string, int, error) {
	_, want, problems, err := c.Decide(ctx)
	if err != nil {
		return "", 0, err
	}
	return c.planOf(ctx, want, problems)
}

func (c *Actions) planOf(ctx context.Context, want role.Desired, problems []config.Problem) (string, int, error) {
	var b strings.Builder
	if len(problems) > 0 {
		b.WriteString("nothing is done until these options are right:\n")
		for _, p := range problems {
			fmt.Fprintf(&b, "  %s\n", p)
		}
		return b.String(), 0, nil
	}
	if len(want.Refused) > 0 {
		b.WriteString("nothing is done before the unit can be taken over from the Python charm:\n")
		for _, cause := range want.Refused {
			fmt.Fprintf(&b, "  %s: %s\n", cause.Kind, cause.Text)
		}
		return b.String(), 0, nil
	}
	due, held, err := c.Plan(ctx, want)
	if err != nil {
		return "", 0, err
	}
	for _, cause := range want.Causes {
		fmt.Fprintf(&b, "%s: %s\n", cause.Kind, cause.Text)
	}
	if want.Driver != nil {
		if err := want.Driver.Decision.Print(&b); err != nil {
			return "", 0, err
		}
	}
	if len(due)+len(held) == 0 && want.OperatorsTurn() {
		b.WriteString("nothing to do for the charm: what is said above is the operator's part\n")
		return b.String(), 0, nil
	}
	err = charm.PrintPlan(&b, due, held)
	return b.String(), len(due), err
}

// Action runs the action that the event names. A failed action is no failed
// run: Juju hears of it through action-fail, beside what results there are.
func (c *Actions) Action(ctx context.Context) error {
	results, failed := c.actionResults(ctx)
	if err := c.Tools.ActionSet(ctx, results); err != nil {
		return jujuerrors.Annotate(err, "cannot report the action's results")
	}
	if failed != nil {
		return jujuerrors.Annotate(c.Tools.ActionFail(ctx, failed.Error()), "cannot report the failed action")
	}
	return nil
}

func (c *Actions) actionResults(ctx context.Context) (map[string]any, error) {
	name := c.Event.Action.Name
	if a, ok := c.answers()[name]; ok {
		return c.answer(ctx, a)
	}
	if w, ok := c.works()[name]; ok {
		return c.work(ctx, w)
	}
	return nil, fmt.Errorf("cannot run action %q: no such action", name)
}

// ListedGPU is one GPU in the JSON list; numbers are those of the machine.
type ListedGPU struct {
	Index    int      `json:"index"` // the number that gpu-device-ids takes
	Vendor   string   `json:"vendor"`
	Name     string   `json:"name"`
	PCI      string   `json:"pci"`
	UniqueID string   `json:"unique_id,omitempty"` // GPU-<16 hex digits>
	GFX      string   `json:"gfx,omitempty"`
	Nodes    []string `json:"nodes"`
}

// UncountedGPU is a GPU of the host that is not this unit's.
type UncountedGPU struct {
	PCI    string `json:"pci"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

// ListGPUs prints the unit's GPUs, those that do not count, and /dev/kfd.
func (c *Actions) ListGPUs(w io.Writer, asJSON bool) error {
	inv, err := gpu.Discover(c.Host.Root)
	if err != nil {
		return err
	}
	if !asJSON {
		return listText(w, inv)
	}
	out := struct {
		GPUs []ListedGPU    `json:"gpus"`
		Left []UncountedGPU `json:"not_counted"`
		KFD  string         `json:"kfd"`
	}{GPUs: []ListedGPU{}, Left: []UncountedGPU{}, KFD: inv.KFD.Text()}
	for _, v := range []gpu.Vendor{gpu.AMD, gpu.NVIDIA} {
		for i, g := range inv.Of(v) {
			out.GPUs = append(out.GPUs, ListedGPU{Index: i, Vendor: string(v), Name: g.Name, PCI: g.PCI,
				UniqueID: uuid(g), GFX: g.GFX, Nodes: nodePaths(g)})
		}
	}
	for _, l := range inv.Left {
		out.Left = append(out.Left, UncountedGPU{l.PCI, l.Name, string(l.Reason), l.Detail})
	}
	return term.JSON(w, out)
}

func listText(w io.Writer, inv gpu.Inventory) error {
	var b strings.Builder
	for _, v := range []gpu.Vendor{gpu.AMD, gpu.NVIDIA} {
		of := inv.Of(v)
		if len(of) == 0 {
			continue
		}
		s := "s"
		if len(of) == 1 {
			s = ""
		}
		fmt.Fprintf(&b, "Found %d %s GPU device%s\n", len(of), v.Label(), s)
		for i, g := range of {
			fmt.Fprintf(&b, "  %d  %s", i, g.Name)
			for _, part := range []string{g.GFX, g.PCI, uuid(g)} {
				if part != "" {
					fmt.Fprintf(&b, "  %s", part)
				}
			}
			fmt.Fprintf(&b, "\n     %s\n", strings.Join(nodePaths(g), " "))
		}
	}
	if b.Len() == 0 {
		b.WriteString("No GPU detected\n")
	}
	for _, l := range inv.Left {
		fmt.Fprintf(&b, "not counted: %s %s: %s\n", l.PCI, l.Name, l.Detail)
	}
	fmt.Fprintf(&b, "%s\n", inv.KFD.Text())
	_, err := io.WriteString(w, b.String())
	return err
}

func uuid(g gpu.GPU) string {
	if g.UniqueID == "" {
		return ""
	}
	return "GPU-" + g.UniqueID
}

func nodePaths(g gpu.GPU) []string {
	var paths []string
	if g.Card != nil {
		paths = append(paths, g.Card.Path)
	}
	return append(paths, g.Render.Path)
}
