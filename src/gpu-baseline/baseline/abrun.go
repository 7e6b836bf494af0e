package baseline

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// abOptions holds a command line of ab.
type abOptions struct {
	a, b    string // commits; or commands if command is empty
	command []string
	only    []string
	limits  Limits
	printing
	repeats
}

func (o *abOptions) cobra() *cobra.Command {
	return &cobra.Command{
		Use:   "ab {COMMIT_A COMMIT_B, -a COMMAND -b COMMAND} [flags] [-- COMMAND]",
		Short: "measure two commits or commands in turns, and fail if B is worse",
		Long: "Measures A and B in turns, A B B A A B B A, on the same GPU, and exits with 1 if an example of B is " +
			"worse than in A by more than all limits of a value and the noise. The command writes a profile to " +
			"$PROFILE_JSON. With commits it runs in a worktree of each, which stays until the last round; " +
			"otherwise in sh -ec.\n\n" +
			"There are at least 4 rounds of A and B, until every example is clear.",
		Example: "gpu-baseline ab v1 v2 --max-duration-pct=10 -- make profile",
		Annotations: map[string]string{commandline.Exit: "0 B is not worse, 1 it is, 2 wrong command line or bad " +
			"input, or a command failed, 3 not clear after all rounds."},
	}
}

func (o *abOptions) flags(fs *pflag.FlagSet) {
	o.limits.flags(fs)
	fs.StringVarP(&o.a, "a", "a", "", "`command` that measures A")
	fs.StringVarP(&o.b, "b", "b", "", "`command` that measures B")
	fs.BoolVar(&o.limits.AllowMissing, "allow-missing", false, "examples of A may be missing or skipped in B")
	fs.Func("example", "`name` of the only example to look at; may be repeated", func(s string) error {
		o.only = append(o.only, s)
		return nil
	})
	o.printing.flags(fs)
	o.repeats.flags(fs, "make `n` rounds", 12)
}

func (o *abOptions) parse(words, after []string, _ bool) error {
	byCommand := o.a != "" && o.b != ""
	switch {
	case byCommand && len(words)+len(after) > 0, !byCommand && (o.a+o.b != "" || len(words) != 2 || len(after) == 0):
		return errors.New("cannot compare: want COMMIT_A COMMIT_B -- COMMAND, or -a COMMAND -b COMMAND")
	case !byCommand:
		o.a, o.b, o.command = words[0], words[1], after
	}
	o.limits.Together = true
	return o.repeats.check(o.limits, firstRounds)
}

func (o *abOptions) run(ctx context.Context, h host.Host, s Streams) (exit int, err error) {
	m, err := newMeter(h, s.Err, o.timeout)
	if err != nil {
		return exitWrong, err
	}
	d := &duel{limits: o.limits, only: o.only, noise: o.part(), maxRounds: o.maxRuns}
	all, exit, err := o.rounds(ctx, d, m)
	if failed := m.close(); failed != nil && err == nil {
		return exitWrong, fmt.Errorf("cannot remove the worktrees: %w", failed)
	}
	if err != nil {
		return exit, err
	}
	r := ABReport{Version: Version, A: o.a, B: o.b, Limits: o.limits, Rounds: len(d.b), Examples: all}
	r.finish()
	if err := o.print(r, s); err != nil {
		return exitWrong, err
	}
	return map[Answer]int{NoWorse: exitWithin, Worse: exitBeyond, Unclear: exitUnclear,
		NotInAll: exitWrong}[r.Result], nil
}

// rounds measures until no further round is needed.
func (o *abOptions) rounds(ctx context.Context, d *duel, m *meter) (all []Compared, exit int, err error) {
	for {
		more, all := d.more()
		if !more {
			return all, exitWithin, nil
		}
		n := len(d.b)
		sides := []struct {
			name, what string
			into       *[]Profile
		}{{"A", o.a, &d.a}, {"B", o.b, &d.b}}
		if n%2 == 1 {
			sides[0], sides[1] = sides[1], sides[0]
		}
		for _, side := range sides {
			fmt.Fprintf(m.log, "round %d: %s\n", n+1, side.name)
			p, err := o.side(ctx, m, side.what)
			if errors.As(err, new(invalid)) {
				return nil, exitUnclear, err
			} else if err != nil {
				return nil, exitWrong, fmt.Errorf("cannot measure %s: %w", side.name, err)
			}
			*side.into = append(*side.into, p)
		}
	}
}

// side measures A or B once.
func (o *abOptions) side(ctx context.Context, m *meter, what string) (Profile, error) {
	dir, command := ".", []string{"sh", "-ec", what}
	if len(o.command) > 0 {
		id, err := resolve(ctx, m, what)
		if err != nil {
			return Profile{}, err
		}
		if dir, err = m.checkout(ctx, id); err != nil {
			return Profile{}, err
		}
		command = o.command
	}
	p, _, err := m.measure(ctx, dir, command)
	return p, err
}
