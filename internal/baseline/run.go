package baseline

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Exit statuses.
const (
	exitWithin = 0
	exitBeyond = 1
	exitWrong  = 2 // called wrongly, or a file that can't be read or written
)

const usage = `Usage: %[1]s compare BASE NEW [flags]

Compares two profiles, files of JSON, and exits with 1 where examples of NEW are
worse than those of BASE by more than the limits. "-" is standard input.

An example is worse when it was ok in BASE and failed in NEW, whatever the limits;
when it is missing in NEW, or skipped there; and when it is ok in both and a limit
is exceeded. Without limits durations and memory are shown, and decide nothing.

%[2]s
A profile is {"examples": {"NAME": {"status": "ok", "duration_s": 1.5,
"peak_memory_mb": 512}}} or a list of such objects, each with its name. MB are
1,000,000 bytes; nothing is converted.

Exit status: 0 within the limits, 1 beyond them, 2 wrong command line or bad input.
`

// errHelp and errVersion are what was asked for in place of a comparison.
var errHelp, errVersion = errors.New("help"), errors.New("version")

// Streams are where the program reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Run is the program, under the name that it was called by and without that name
// in args; it returns the exit status.
func Run(name, version string, args []string, s Streams) int {
	o, fs, err := parse(args)
	switch {
	case errors.Is(err, errHelp):
		err = write(s.Out, fmt.Sprintf(usage, name, flags(fs)))
	case errors.Is(err, errVersion):
		err = write(s.Out, name+" "+version+"\n")
	case err != nil:
		fmt.Fprintf(s.Err, "%s: %v; see %s --help\n", name, err, name)
		return exitWrong
	default:
		var ok bool
		if ok, err = o.run(s); err == nil && !ok {
			return exitBeyond
		}
	}
	if err != nil {
		fmt.Fprintf(s.Err, "%s: %v\n", name, err)
		return exitWrong
	}
	return exitWithin
}

func write(w io.Writer, s string) error {
	if _, err := io.WriteString(w, s); err != nil {
		return fmt.Errorf("cannot write the output: %w", err)
	}
	return nil
}

// run compares and writes the report; ok means within the limits.
func (o options) run(s Streams) (ok bool, err error) {
	now, err := o.profile(o.now, s.In)
	if err != nil {
		return false, err
	}
	base, err := o.profile(o.base, s.In)
	none := o.allowNoBase && errors.Is(err, fs.ErrNotExist)
	switch {
	case none:
		base = Profile{File: o.base}
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("%w; on a first run give --allow-no-base, and keep %s as the baseline", err, visible(o.now))
	case err != nil:
		return false, err
	case len(base.Examples) == 0:
		return false, fmt.Errorf("cannot compare with %s: it has no examples, so nothing could fail", visible(o.base))
	}
	r, err := compare(base, now, o.limits, o.renames)
	if err != nil {
		return false, err
	}
	if none {
		r.Notes = append(r.Notes, "there is no baseline yet: nothing was compared")
	}
	out := map[string]func() string{"text": r.Text, "json": r.JSON, "markdown": r.Markdown}[o.format]()
	if o.output == "" {
		return r.OK, write(s.Out, out)
	}
	if err := replace(o.output, out, o.base, o.now); err != nil {
		return false, err
	}
	return r.OK, write(s.Out, r.Verdict()+"\n")
}

// flags are the lines of the usage on them.
func flags(fs *flag.FlagSet) string {
	var b strings.Builder
	fs.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		line := "--" + f.Name
		if f.Name == "o" {
			line = "-o"
		}
		if value != "" {
			line += " " + strings.ToUpper(value)
		}
		fmt.Fprintf(&b, "  %-24s %s\n", line, text)
	})
	return b.String()
}
