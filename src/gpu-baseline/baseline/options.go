package baseline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// options holds a command line of compare.
type options struct {
	base, now   string // files; "-" is standard input
	limits      Limits
	allowNoBase bool
	printing
}

func (o *options) cobra() *cobra.Command {
	return &cobra.Command{
		Use:   "compare BASE NEW [flags]",
		Short: "fail if a profile is worse than its baseline",
		Long: "Compares two profiles in JSON, and exits with 1 if an example of NEW is worse than in BASE. \"-\" is " +
			"standard input.\n\n" +
			"An example is worse if it was ok in BASE and is failed, missing or skipped in NEW, or if it exceeds " +
			"a limit. Without limits durations and memory are only shown.",
		Example: "gpu-baseline compare base.json new.json --max-duration-pct=10",
		Annotations: map[string]string{commandline.Exit: "0 within the limits, 1 beyond them, 2 wrong command line or bad " +
			"input."},
	}
}

func (o *options) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.allowNoBase, "allow-no-base", false, "BASE may be missing: everything is new then")
	fs.BoolVar(&o.limits.AllowMissing, "allow-missing", false, "examples of BASE may be missing or skipped in NEW")
	o.limits.flags(fs)
	o.limits.together(fs)
	o.printing.flags(fs)
}

// flags declares the flags of the limits.
func (l *Limits) flags(fs *pflag.FlagSet) {
	fs.Func("max-duration-pct", "a duration may grow by `n` percent of the baseline's",
		limit(parsePercent, &l.DurationPct))
	fs.Func("max-duration-s", "a duration may grow by `n` seconds", limit(parseAmount, &l.Duration))
	fs.Func("max-memory-pct", "peak memory may grow by `n` percent of the baseline's",
		limit(parsePercent, &l.MemoryPct))
	fs.Func("max-memory-mb", "peak memory may grow by `n` MB", limit(parseAmount, &l.Memory))
}

func (l *Limits) together(fs *pflag.FlagSet) {
	fs.BoolVar(&l.Together, "together", false, "a value with two limits is worse only beyond both")
}

// limit returns a function that parses a number into a limit.
func limit[T any](parse func(string) (T, error), into **T) func(string) error {
	return func(s string) error {
		n, err := parse(s)
		if err != nil {
			return fmt.Errorf("it %w", err)
		}
		*into = &n
		return nil
	}
}

func (o *options) parse(words, after []string, _ bool) error {
	files := append(words, after...)
	switch {
	case len(files) != 2:
		return fmt.Errorf("cannot compare %d files: want two, BASE and NEW", len(files))
	case files[0] == "-" && files[1] == "-":
		return errors.New("cannot read both files from standard input")
	case slices.Contains(files, ""):
		return errors.New("cannot compare: a file has no name")
	}
	o.base, o.now = files[0], files[1]
	return nil
}

// run compares and writes the report.
func (o *options) run(_ context.Context, _ host.Host, s Streams) (exit int, err error) {
	r, err := o.compare(s)
	if err == nil {
		err = o.print(r, s, o.base, o.now)
	}
	switch {
	case err != nil:
		return exitWrong, err
	case !r.OK:
		return exitBeyond, nil
	}
	return exitWithin, nil
}

func (o *options) compare(s Streams) (Report, error) {
	now, err := readProfile(o.now, s.In)
	if err != nil {
		return Report{}, err
	}
	base, err := readProfile(o.base, s.In)
	none := o.allowNoBase && errors.Is(err, fs.ErrNotExist)
	switch {
	case none:
		base = Profile{File: o.base}
	case errors.Is(err, fs.ErrNotExist):
		return Report{}, fmt.Errorf("%w; on a first run give --allow-no-base, and keep %s as the baseline", err,
			visible(o.now))
	case err != nil:
		return Report{}, err
	case len(base.Examples) == 0:
		return Report{}, fmt.Errorf("cannot compare with %s: it has no examples, so nothing could fail",
			visible(o.base))
	}
	r := compare(base, now, o.limits)
	if none {
		r.Notes = append(r.Notes, "no baseline yet: nothing was compared")
	}
	return r, nil
}
