package resource

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func restart(inputs ...string) Trigger {
	t := Trigger{Name: "worker", Op: "restart concourse-worker", Disrupts: "running builds",
		Then: []host.Command{Systemctl("daemon-reload"), Systemctl("restart", "concourse-worker")}}
	for _, in := range inputs {
		t.Inputs = append(t.Inputs, []byte(in))
	}
	return t
}

func TestTriggerRunsOncePerChangeOfItsInputs(t *testing.T) {
	h, r := machine(t)
	r.Answer("systemctl", "")
	for _, inputs := range [][]string{{"unit", "env"}, {"unit", "env2"}, {"unite", "nv2"}, {"unit"}, nil} {
		r.Ran = nil
		p := apply(t, h, restart(inputs...))
		require.Len(t, p, 1, inputs)
		require.Equal(t, "running builds", p[0].Disrupts)
		require.NotEmpty(t, p[0].Why)
		require.Equal(t, []string{"systemctl daemon-reload", "systemctl restart concourse-worker"}, r.Ran)
		require.Empty(t, diff(t, h, restart(inputs...)), inputs)
	}
	st, err := h.Stat(wellknown.RunDir + "/worker.stamp")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
	require.NoError(t, os.RemoveAll(h.Path("/run")))
	require.Len(t, diff(t, h, restart()), 1, "a reboot forgets what was restarted")
}

func TestTriggerThatFailsRunsAgain(t *testing.T) {
	h, r := machine(t)
	r.Answer("systemctl daemon-reload", "").Fail("systemctl restart", 1, "job failed")
	_, err := diff(t, h, restart("a")).Apply(context.Background(), nil)
	require.ErrorContains(t, err, "job failed")
	r.Answer("systemctl restart", "")
	require.Len(t, apply(t, h, restart("a")), 1)
	require.Empty(t, diff(t, h, restart("a")))
}

// A stamp reports what this charm did last; others write the same files and start the same
// units.
func TestTriggerIsDueAfterOthersWroteItsFiles(t *testing.T) {
	const path, mine = "/var/lib/concourse/config.env", "A=1\n"
	for name, c := range map[string]struct {
		written, started bool   // by another program
		content          string // that it left
		due, bare        bool   // bare: without a unit
	}{
		"nothing":                      {false, false, mine, false, false},
		"started":                      {false, true, mine, false, false},
		"written, not started":         {true, false, "A=2\n", false, true},
		"written and started":          {true, true, "A=2\n", true, true},
		"written back, and started":    {true, true, mine, true, true},
		"written back and not started": {true, false, mine, false, true},
	} {
		for _, unit := range []string{"concourse-worker.service", ""} {
			h, r := machine(t)
			invocation := "1"
			r.Answer("systemctl restart", "").On("systemctl show", func(host.Command) (string, error) {
				return "Id=concourse-worker.service\nActiveState=active\nInvocationID=" + invocation + "\n", nil
			})
			wanted := func() []plan.Resource {
				return []plan.Resource{File{Path: path, Data: []byte(mine), Mode: 0o600}, Trigger{Name: "worker", Inputs: [][]byte{[]byte(mine)}, Files: []string{path},
					Unit: unit, State: UnitState{Active: "active", Invocation: invocation}, Op: "restart it", Then: []host.Command{Systemctl("restart", "concourse-worker")}}}
			}
			ran := func() int {
				r.Ran = nil
				p, err := plan.Diff(t.Context(), h, wanted()...)
				require.NoError(t, err)
				_, err = p.Apply(t.Context(), nil)
				require.NoError(t, err)
				return len(r.Ran)
			}
			require.Equal(t, 1, ran())
			require.Zero(t, ran())
			if c.started {
				invocation = "2"
			}
			if c.written {
				require.NoError(t, os.WriteFile(h.Path(path), []byte(c.content), 0o600))
				later := hosttest.Now.AddDate(1, 0, 0)
				require.NoError(t, os.Chtimes(h.Path(path), later, later))
			}
			due := c.due
			if unit == "" {
				due = c.bare
			}
			require.Equal(t, due, ran() == 1, "%s, unit %q", name, unit)
			require.Zero(t, ran(), "%s, unit %q", name, unit)
		}
	}
}

// A run that is killed after any step must leave what the next run makes whole: above all a
// written file without its restart.
func TestRunKilledAfterAnyStepConverges(t *testing.T) {
	killed := errors.New("killed")
	wanted := func() []plan.Resource {
		unit := File{Path: "/etc/systemd/system/concourse-worker.service", Data: []byte("[Service]\n"), Mode: 0o644}
		env := File{Path: "/var/lib/concourse/worker-config.env", Data: []byte("A=1\n"), Mode: 0o600}
		return []plan.Resource{Dir{Path: "/var/lib/concourse", Mode: 0o755}, unit, env, restart(string(unit.Data), string(env.Data))}
	}
	full := 0
	{
		h, _ := machine(t)
		p, err := plan.Diff(context.Background(), h, wanted()...)
		require.NoError(t, err)
		full = len(p)
		require.Equal(t, 4, full)
	}
	for dies := range full * 2 {
		after, atStep := dies%2 == 1, dies/2 // killed before the step does anything, or after all it did
		h, r := machine(t)
		r.Answer("systemctl", "")
		// What an earlier life left: the unit as it was, and the stamp of it.
		old := File{Path: "/etc/systemd/system/concourse-worker.service", Data: []byte("[Service]\nOld=1\n"), Mode: 0o644}
		apply(t, h, old)
		apply(t, h, restart(string(old.Data)))
		r.Ran = nil

		p, err := plan.Diff(context.Background(), h, wanted()...)
		require.NoError(t, err)
		do := p[atStep].Do
		p[atStep].Do = func(ctx context.Context) error {
			if after {
				require.NoError(t, do(ctx))
			}
			return killed
		}
		_, err = p.Apply(context.Background(), nil)
		require.ErrorIs(t, err, killed)

		p, err = plan.Diff(context.Background(), h, wanted()...)
		require.NoError(t, err)
		_, err = p.Apply(context.Background(), nil)
		require.NoError(t, err)
		require.Contains(t, r.Ran, "systemctl restart concourse-worker", "killed at step %d, after it: %v", atStep, after)
		p, err = plan.Diff(context.Background(), h, wanted()...)
		require.NoError(t, err)
		require.Empty(t, p)
		text, err := h.ReadText(old.Path)
		require.NoError(t, err)
		require.Equal(t, "[Service]", text)
	}
}

// The commands succeeded and the run was killed before the stamp was there:
// the trigger may run once more, never once too few.
func TestTriggerKilledBeforeItsStampRunsAgain(t *testing.T) {
	h, r := machine(t)
	r.Answer("systemctl", "").On("systemctl restart", func(host.Command) (string, error) {
		hosttest.Put(t, h.Root, wellknown.RunDir, "a file where the stamps belong")
		return "", nil
	})
	_, err := diff(t, h, restart("a")).Apply(context.Background(), nil)
	require.Error(t, err)
	require.NoError(t, h.Remove(wellknown.RunDir))
	r.Answer("systemctl restart", "")
	r.Ran = nil
	apply(t, h, restart("a"))
	require.Len(t, r.Ran, 2)
}

func TestAdoptedTriggerNotesTheStateAndRunsNothing(t *testing.T) {
	h, r := machine(t)
	tr := restart("a")
	tr.Adopt = true
	p := apply(t, h, tr)
	require.Equal(t, "note the inputs of "+tr.Op, p[0].Op)
	require.Empty(t, p[0].Disrupts)
	require.Empty(t, r.Ran)
	require.Empty(t, diff(t, h, tr))

	tr.Inputs = [][]byte{[]byte("b")}
	require.Equal(t, "note the inputs of "+tr.Op, apply(t, h, tr)[0].Op, "what was stamped before does not matter")
	require.Empty(t, r.Ran)
}
