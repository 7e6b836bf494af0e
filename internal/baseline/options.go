package baseline

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// options are a command line.
type options struct {
	base, now   string // files; "-" is standard input
	limits      Limits
	format      string
	renames     []string
	allowNoBase bool
	output      string // a file; empty: standard output
}

var formats = []string{"text", "json", "markdown"}

// flagSet binds the flags to o.
func (o *options) flagSet() *flag.FlagSet {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.BoolVar(&o.allowNoBase, "allow-no-base", false, "BASE may not be there yet: everything is new then")
	fs.BoolVar(&o.limits.AllowMissing, "allow-missing", false, "what BASE has may be missing in NEW, or skipped there")
	fs.Func("format", "`format` of the report: text, json or markdown (default text)", func(s string) error {
		if !slices.Contains(formats, s) {
			return fmt.Errorf("want %s", strings.Join(formats, ", "))
		}
		o.format = s
		return nil
	})
	o.limits.flags(fs)
	fs.BoolVar(&o.limits.Together, "together", false, "what has two limits is worse only where it exceeds both")
	fs.StringVar(&o.output, "o", "", "write the report to `file`, and only the verdict to standard output")
	fs.Func("rename", "the example OLD of BASE is `old=new` in NEW; may be repeated", func(s string) error {
		o.renames = append(o.renames, s)
		return nil
	})
	return fs
}

// flags binds the limits that every command has.
func (l *Limits) flags(fs *flag.FlagSet) {
	fs.Func("max-duration-pct", "a duration may grow by `n` percent of the baseline's", limit(parsePercent, &l.DurationPct))
	fs.Func("max-duration-s", "a duration may grow by `n` seconds", limit(parseAmount, &l.Duration))
	fs.Func("max-memory-pct", "peak memory may grow by `n` percent of the baseline's", limit(parsePercent, &l.MemoryPct))
	fs.Func("max-memory-mb", "peak memory may grow by `n` MB", limit(parseAmount, &l.Memory))
}

// limit reads a number into a limit.
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

// parse reads a command line. Flags may stand before, between and after the files.
func parse(args []string) (options, *flag.FlagSet, error) {
	o := options{format: "text"}
	fs := o.flagSet()
	if len(args) == 0 {
		return o, fs, errors.New("cannot run without a command: want compare BASE NEW")
	}
	switch args[0] {
	case "--help", "-help", "-h", "help":
		return o, fs, errHelp
	case "--version", "-version", "version":
		return o, fs, errVersion
	case "compare":
	default:
		return o, fs, fmt.Errorf("cannot run %s: want compare BASE NEW", quoted(args[0]))
	}
	var files []string
	for args = args[1:]; len(args) > 0; {
		if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
			return o, fs, errHelp
		} else if err != nil {
			return o, fs, fmt.Errorf("cannot read the flags: %s", visible(err.Error()))
		}
		rest := fs.Args()
		if n := len(args) - len(rest); n > 0 && args[n-1] == "--" {
			files = append(files, rest...)
			break
		}
		if len(rest) == 0 {
			break
		}
		files, args = append(files, rest[0]), rest[1:]
	}
	switch {
	case len(files) != 2:
		return o, fs, fmt.Errorf("cannot compare %d files: want two, BASE and NEW", len(files))
	case files[0] == "-" && files[1] == "-":
		return o, fs, errors.New("cannot read both files from standard input")
	case slices.Contains(files, ""):
		return o, fs, errors.New("cannot compare: a file has no name")
	}
	o.base, o.now = files[0], files[1]
	return o, fs, nil
}
