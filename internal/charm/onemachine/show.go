package onemachine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/pipelines"
)

// ErrNotReady reports that the CI does not work yet. The status was printed.
var ErrNotReady = errors.New("the CI is not ready")

// Show prints the status. It returns ErrNotReady unless the CI works.
func (m *Machine) Show(ctx context.Context) error {
	s := m.Model.state
	switch {
	case !m.Model.Installed():
		return errNotUp
	case s.Down:
		return m.showDown(ctx)
	}
	facts, err := model.Load(m.Model.Host.Root)
	if err != nil {
		return err
	}
	env, err := role.ReadOptional(m.Model.Host.Root, concourse.EnvFile)
	if err != nil {
		return err
	}
	d, err := m.decision(ctx)
	if err != nil {
		return err
	}
	causes := m.causes(ctx, d)
	fmt.Fprintln(m.Stdout, statusText(m.Charm.Ready(d.Want)[0], causes))
	w := tabwriter.NewWriter(m.Stdout, 0, 0, 3, ' ', 0)
	tags := envValue(env, "CONCOURSE_TAG")
	if d.Want.Web.Up {
		fmt.Fprintf(w, "web\t%s\n", d.Want.Web.URL)
		fmt.Fprintf(w, "user\t%s\n", d.Config.Web.InitialAdminUsername)
		fmt.Fprintln(w, "password\tsudo concourse-ci-machine get-admin-password")
	}
	if facts.Role.Worker() {
		fmt.Fprintf(w, "worker\t%s\n", envValue(env, "CONCOURSE_NAME"))
		fmt.Fprintf(w, "tags\t%s\n", cmp.Or(strings.ReplaceAll(tags, ",", " "), "none"))
		fmt.Fprintf(w, "GPUs\t%d\n", d.Want.Worker.GPUs.Count)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Workers)) {
		fmt.Fprintf(w, "joined\t%s\n", name)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(causes) > 0 && causes[0].Kind != status.Active {
		return ErrNotReady
	}
	if d.Want.Web.Up {
		printNext(m, d.Want.Web.URL, tags)
	}
	return nil
}

// showDown prints the status of a CI that is down.
func (m *Machine) showDown(ctx context.Context) error {
	services := []string{concourse.WebUnit, concourse.Unit, role.PebbleUnit}
	units, err := resource.ShowUnits(ctx, m.Model.Host, services...)
	if err != nil {
		return err
	}
	services = slices.DeleteFunc(services, func(u string) bool { return !units[u].Running() })
	if len(services) > 0 {
		fmt.Fprintf(m.Stdout, "maintenance: the CI is being stopped: %s; if no command does it now, "+
			"run: sudo concourse-ci-machine down\n", strings.Join(services, ", "))
		return ErrNotReady
	}
	fmt.Fprintln(m.Stdout, "down: the CI is stopped; start it with: sudo concourse-ci-machine up")
	return ErrNotReady
}

// causes returns the causes of the status, the worst first. The last run has recorded what
// only a run finds out, such as a full disk or a killed step.
func (m *Machine) causes(ctx context.Context, d charm.Decision) []status.Cause {
	var causes []status.Cause
	for _, p := range d.Problems {
		causes = append(causes, status.Block("%s", p))
	}
	if len(d.Problems) == 0 {
		causes = slices.Concat(m.Charm.Causes(d.Want), m.Charm.Check(ctx, d.Want, charm.Unchanged))
	}
	last := status.Cause{Kind: status.Kind(m.Model.state.Status), Text: m.Model.state.Message}
	known := slices.ContainsFunc(causes, func(c status.Cause) bool { return c.Kind == last.Kind })
	if last.Kind == status.Maintenance || last.Kind == status.Blocked && !known {
		causes = append(causes, last)
	}
	return status.Sorted(causes)
}

// statusText returns the status for a terminal: all causes with their details and commands.
func statusText(ready string, causes []status.Cause) string {
	var b strings.Builder
	if len(causes) == 0 || causes[0].Kind == status.Active {
		fmt.Fprintf(&b, "%s: %s\n", status.Active, ready)
	}
	for _, c := range causes {
		kind := string(c.Kind)
		if c.Kind == status.Active {
			kind = "warning"
		}
		fmt.Fprintf(&b, "%s: %s\n", kind, c.Text)
		var detail []string
		if c.Detail != "" {
			detail = commandline.Wrap(c.Detail, commandline.Width-2)
		}
		for _, line := range slices.Concat(detail, c.Commands) {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}

// notReady returns an error with all causes of the status after a change.
func (m *Machine) notReady(ctx context.Context, d charm.Decision) error {
	return fmt.Errorf("changed, but %w:\n%s", ErrNotReady, strings.TrimSpace(statusText("", m.causes(ctx, d))))
}

// taskFolder has the package's tasks.
const taskFolder = "/usr/share/concourse-ci-machine/tasks"

// printNext prints the commands of a first build. Without GPUs there is none of the package.
func printNext(m *Machine, url, tags string) {
	next, lines := "Log in", []string{"fly --target ci login --concourse-url " + url}
	for tag := range strings.SplitSeq(tags, ",") {
		if task := pipelines.FirstTask(tag, taskFolder); task != nil {
			next, lines = "Run a first task", append(lines, task...)
		}
	}
	fmt.Fprintf(m.Stdout, "\n%s:\n\n  %s\n", next, strings.Join(lines, "\n  "))
}

// envValue returns the value of a variable in a file of the charm.
func envValue(file, key string) string {
	for line := range strings.Lines(file) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return strings.Trim(v, `"`)
		}
	}
	return ""
}

// Logs shows the logs of the services through journalctl, which gets the further arguments.
func (m *Machine) Logs(ctx context.Context, args []string) error {
	argv := []string{"journalctl", "--unit=" + concourse.WebUnit, "--unit=" + concourse.Unit,
		"--unit=" + role.PebbleUnit, "--unit=concourse-ci-machine.service"}
	return host.Attached(ctx, append(argv, args...), os.Stdin, m.Stdout, os.Stderr)
}
