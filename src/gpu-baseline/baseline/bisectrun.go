package baseline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// bisectOptions holds a command line of bisect.
type bisectOptions struct {
	span, versions, profiles string
	only, command            []string
	limits                   Limits
	printing
	repeats
	minRuns int
	dryRun  bool
}

// repeats configures how runs are made and repeated.
type repeats struct {
	noise   *Percent
	maxRuns int
	timeout time.Duration
}

func (r *repeats) flags(fs *pflag.FlagSet, most string, runs int) {
	r.maxRuns = runs
	fs.Func("noise-pct", "least difference of runs of the same commit, `n` percent (default 2)",
		limit(parsePercent, &r.noise))
	fs.IntVar(&r.maxRuns, "max-runs", runs, fmt.Sprintf("%s at most (default %d)", most, runs))
	fs.DurationVar(&r.timeout, "timeout", time.Hour, "a run may take this `long` (default 1h)")
}

// part returns the noise, relative to a value.
func (r *repeats) part() float64 {
	if r.noise == nil {
		return 0.02
	}
	return float64(*r.noise) / 100
}

// check validates the flags that both searches have.
func (r *repeats) check(l Limits, least int) error {
	switch {
	case l.DurationPct == nil && l.Duration == nil && l.MemoryPct == nil && l.Memory == nil:
		return errors.New("cannot find what is worse without a limit: set --max-duration-pct or another limit")
	case r.maxRuns < least:
		return fmt.Errorf("cannot run each %d times: --max-runs must be %d or more", r.maxRuns, least)
	case r.timeout <= 0:
		return errors.New("cannot run for no time: --timeout must be more than 0")
	}
	return nil
}

func (o *bisectOptions) cobra() *cobra.Command {
	return &cobra.Command{
		Use:   "bisect {OLD..NEW, --versions FILE} --profiles DIR [flags] [-- COMMAND]",
		Short: "find the commit that made an example worse",
		Long: "Finds the commit after OLD up to NEW that made an example worse than in OLD by more than the limits. It " +
			"uses the profiles in DIR, profile-<time>-<commit>.json, and as few runs of COMMAND as possible. " +
			"COMMAND runs in a worktree of a commit and writes the profile to $PROFILE_JSON, which is kept in " +
			"DIR. A commit with a failed run is left out; after exit status 125 for ever, with " +
			"DIR/skip-<commit>.txt.\n\n" +
			"If a growth is near its limit, a commit or OLD is run again.",
		Example: "gpu-baseline bisect v1..v2 --profiles p --max-duration-pct=10 -- make profile",
		Annotations: map[string]string{commandline.Exit: "0 each example that is worse has its commit, 1 none is " +
			"worse in NEW, or an end can't be measured, 2 wrong command line or bad input, 3 not clear: one of several commits, or less sure than 95 %."},
	}
}

func (o *bisectOptions) flags(fs *pflag.FlagSet) {
	fs.StringVar(&o.profiles, "profiles", "", "`folder` of existing and new profiles")
	fs.StringVar(&o.versions, "versions", "", "`file` with commits, the oldest first, or with the output of fly resource-versions")
	fs.Func("example", "`name` of the only example to look at; may be repeated", func(s string) error {
		o.only = append(o.only, s)
		return nil
	})
	fs.IntVar(&o.minRuns, "min-runs", 2, "run the two deciding commits at least `n` times (default 2)")
	fs.BoolVar(&o.dryRun, "dry-run", false, "print the next run, and run nothing")
	o.limits.flags(fs)
	o.limits.together(fs)
	o.printing.flags(fs)
	o.repeats.flags(fs, "run each commit `n` times", 5)
}

func (o *bisectOptions) parse(words, after []string, dashed bool) error {
	switch {
	case dashed && len(after) == 0:
		return errors.New("cannot measure: no command after --")
	case o.versions == "" && len(words) != 1:
		return fmt.Errorf("cannot bisect %d ranges: want one, OLD..NEW, or --versions", len(words))
	case o.versions != "" && len(words) > 0:
		return errors.New("cannot bisect both a range and --versions")
	case o.profiles == "":
		return errors.New("cannot bisect without a folder of profiles: give --profiles; it may be empty if " +
			"a command is given")
	}
	o.command = after
	if len(words) > 0 {
		o.span = words[0]
	}
	return o.repeats.check(o.limits, 1)
}

// search represents a running bisection.
type search struct {
	*bisection
	in      folder
	meter   *meter
	command []string
	dryRun  bool
	out     Streams
	made    int // runs
}

func (o *bisectOptions) run(ctx context.Context, h host.Host, s Streams) (exit int, err error) {
	commits, err := o.history(ctx, h)
	if err == nil && len(commits) < 2 {
		err = errors.New("cannot bisect: the good commit is the last one")
	}
	if err != nil {
		return exitWrong, err
	}
	b := &bisection{commits: commits, runs: make([][]Profile, len(commits)), broken: make([]string, len(commits)),
		limits: o.limits, only: o.only, noise: o.part(), minRuns: o.minRuns,
		maxRuns: o.maxRuns, canRun: len(o.command) > 0}
	in := folder{h, o.profiles}
	stored, notes, err := in.load(b)
	if err != nil {
		return exitWrong, err
	}
	m, err := newMeter(h, s.Err, o.timeout)
	if err != nil {
		return exitWrong, err
	}
	w := &search{bisection: b, in: in, meter: m, command: o.command, dryRun: o.dryRun, out: s}
	found, exit, err := w.search(ctx)
	if failed := m.close(); failed != nil && err == nil {
		return exitWrong, fmt.Errorf("cannot remove the worktrees: %w", failed)
	}
	if err != nil || found == nil {
		return exit, err
	}
	r := BisectReport{Version: Version, Good: commits[0], Bad: commits[len(commits)-1], Commits: len(commits) - 1,
		Limits:   o.limits,
		Profiles: stored, Runs: w.made, Examples: found, Notes: append([]string{}, notes...)}
	r.finish()
	if !r.OK {
		exit = exitUnclear
	}
	if err := o.print(r, s); err != nil {
		return exitWrong, err
	}
	return exit, nil
}

func (o *bisectOptions) history(ctx context.Context, h host.Host) ([]Commit, error) {
	if o.versions == "" {
		return gitRange(ctx, h, o.span)
	}
	data, err := h.ReadFile(o.versions)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", visible(o.versions), cause(err))
	}
	return parseVersions(o.versions, data)
}

// search measures until no run is needed. found is nil for a dry run.
func (w *search) search(ctx context.Context) (found []Found, exit int, err error) {
	for {
		next, found, err := w.next()
		switch {
		case err != nil:
			return nil, exitBeyond, err
		case w.dryRun && next == noStep:
			return nil, exitWithin, write(w.out.Out, "nothing is left to run\n")
		case next == noStep:
			return found, exitWithin, nil
		}
		c := w.commits[next.commit]
		if w.dryRun {
			return nil, exitWithin, write(w.out.Out,
				fmt.Sprintf("would run %s with %s checked out: %s; then for this example at most %d more, and "+
					"more if growth is near a limit\n",
					visible(strings.Join(w.command, " ")), c.short(), next.why, next.remaining))
		}
		w.made++
		fmt.Fprintf(w.out.Err, "run %d: %s %s: %s\n", w.made, c.short(), visible(c.Subject), next.why)
		if exit, err := w.measure(ctx, next.commit); err != nil {
			return nil, exit, err
		}
	}
}

// measure runs the command for a commit and stores the result.
func (w *search) measure(ctx context.Context, i int) (exit int, err error) {
	c := w.commits[i]
	tree, err := w.meter.checkout(ctx, c.ID)
	if err != nil {
		return exitWrong, err
	}
	p, data, err := w.meter.measure(ctx, tree, w.command)
	var no broken
	switch {
	case errors.As(err, &no):
		fmt.Fprintf(w.out.Err, "%s is left out: %s\n", c.short(), no.why)
		w.broken[i], err = no.why, nil
		if no.skip {
			err = w.in.skip(c, no.why)
		}
	case errors.As(err, new(invalid)):
		return exitUnclear, err
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: what was measured is in %s, and the same command continues from there", err,
			visible(w.in.dir))
	case err == nil:
		w.runs[i] = append(w.runs[i], p)
		err = w.in.store(c, data)
	}
	if err == nil {
		err = w.meter.drop(c.ID)
	}
	if err != nil {
		return exitWrong, err
	}
	return exitWithin, nil
}
