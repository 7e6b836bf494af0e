package plan_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// fixed is a resource with the same answer always.
type fixed struct {
	p   plan.Plan
	err error
}

func (f fixed) Diff(context.Context, host.Host) (plan.Plan, error) { return f.p, f.err }

func step(op, why string) plan.Step {
	return plan.Step{Op: op, Why: why, Do: func(context.Context) error { return nil }}
}

func TestDiffKeepsTheOrderOfResources(t *testing.T) {
	p, err := plan.Diff(context.Background(), host.Host{},
		fixed{p: plan.Plan{step("a", "1"), step("b", "2")}}, fixed{}, fixed{p: plan.Plan{step("c", "3")}})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, p.Print(&b))
	require.Equal(t, "1/3 a (1)\n2/3 b (2)\n3/3 c (3)\n", b.String())
}

func TestDiffThatFailsPlansNothing(t *testing.T) {
	broken := errors.New("broken")
	p, err := plan.Diff(context.Background(), host.Host{}, fixed{p: plan.Plan{step("a", "1")}}, fixed{err: broken})
	require.ErrorIs(t, err, broken)
	require.Nil(t, p)
}

func TestPrintReportsAnEmptyPlan(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, plan.Plan(nil).Print(&b))
	require.Equal(t, "nothing to do\n", b.String())
	require.Error(t, plan.Plan(nil).Print(full{}))
	require.Error(t, plan.Plan{step("a", "1")}.Print(full{}))
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestApplyStopsAtTheFirstUntoleratedFailure(t *testing.T) {
	small, big := errors.New("small"), errors.New("big")
	var done []string
	run := func(op string, err error, tolerate bool) plan.Step {
		return plan.Step{Op: op, Tolerate: tolerate, Do: func(context.Context) error {
			done = append(done, op)
			return err
		}}
	}
	p := plan.Plan{run("a", nil, false), run("b", small, true), run("c", nil, true), run("d", big, false), run("e", nil, false)}
	var heard []string
	notes, err := p.Apply(context.Background(), func(text string) {
		require.Len(t, done, len(heard), "a step is heard of before it is done")
		heard = append(heard, text)
	})
	require.Equal(t, []string{"a", "b", "c", "d"}, done)
	require.Equal(t, []string{"1/5 a ()", "2/5 b ()", "3/5 c ()", "4/5 d ()"}, heard)
	var failed *plan.StepError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "d", failed.Op)
	require.ErrorIs(t, err, big)
	require.EqualError(t, err, "cannot d: big")
	require.Len(t, notes, 1, "the notes come with the error")
	require.Equal(t, "b", notes[0].Step.Op)
	require.Equal(t, small, notes[0].Err)
}

func TestApplyOfNothingDoesNothing(t *testing.T) {
	notes, err := plan.Plan(nil).Apply(context.Background(), nil)
	require.NoError(t, err)
	require.Empty(t, notes)
}
