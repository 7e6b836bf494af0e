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

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/status"
	"concourse-ci-machine/internal/charm"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
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
		fmt.Fprintln(m.Stdout, "down: the CI is stopped; start it with: sudo concourse-ci-machine up")
		return ErrNotReady
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
	now := m.now(ctx, d)
	fmt.Fprintf(m.Stdout, "%s: %s\n\n", now.Kind, now.Message)
	w := tabwriter.NewWriter(m.Stdout, 0, 0, 3, ' ', 0)
	tags := envValue(env, "CONCOURSE_TAG")
	if d.Want.Web.Up {
		fmt.Fprintf(w, "web\t%s\n", d.Want.Web.URL)
		cfg, _ := config.Parse(d.Facts.Config, nil) // checked before
		fmt.Fprintf(w, "user\t%s\n", cfg.Web.InitialAdminUsername)
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
	if now.Kind != status.Active {
		return ErrNotReady
	}
	if d.Want.Web.Up {
		printNext(m, d.Want.Web.URL, tags)
	}
	return nil
}

// now returns the status. The last run has recorded what only a run finds out, such as an
// invalid option or a failed step.
func (m *Machine) now(ctx context.Context, d charm.Decision) status.Status {
	last := status.Status{Kind: status.Kind(m.Model.state.Status), Message: m.Model.state.Message}
	if len(d.Problems) > 0 || last.Kind == status.Maintenance || last.Kind == status.Blocked {
		return last
	}
	return m.Charm.Status(ctx, d.Want)
}

// printNext prints the commands of a first build.
func printNext(m *Machine, url, tags string) {
	fmt.Fprintf(m.Stdout, "\nRun a first task:\n\n  fly --target ci login --concourse-url %s\n", url)
	have := strings.Split(tags, ",")
	const execute = "  fly --target ci execute --tag gpu --tag %s \\\n" +
		"      --config /usr/share/concourse-ci-machine/tasks/%s\n"
	for tag, task := range map[string]string{"compute-runtime=rocm": "verify-gpu-amd.yml",
		"compute-runtime=cuda": "verify-gpu-cuda.yml"} {
		if slices.Contains(have, "gpu") && slices.Contains(have, tag) {
			fmt.Fprintf(m.Stdout, execute, tag, task)
		}
	}
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
	argv := []string{"journalctl", "--unit=" + concourse.WebUnit, "--unit=" + concourse.Unit, "--unit=" + role.PebbleUnit,
		"--unit=concourse-ci-machine.service"}
	return host.Attached(ctx, append(argv, args...), os.Stdin, m.Stdout, os.Stderr)
}
