package baseline

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// Exit statuses.
const (
	exitWithin  = 0
	exitBeyond  = 1
	exitWrong   = 2 // wrong command line, or a file that can't be read or written
	exitUnclear = 3 // in bisect and ab: too much noise, or commits that can't be measured
)

const usage = `Usage: %[1]s compare BASE NEW [flags]
       %[1]s bisect OLD..NEW --profiles DIR [flags] [-- COMMAND]
       %[1]s bisect --versions FILE --profiles DIR [flags] [-- COMMAND]
       %[1]s ab COMMIT_A COMMIT_B [flags] -- COMMAND
       %[1]s ab -a COMMAND -b COMMAND [flags]
       %[1]s junit PATH...

  compare   fails if a profile is worse than its baseline
  bisect    finds the commit that made an example worse
  ab        measures two commits or commands in turns, and fails if B is worse
  junit     prints results of JUnit files in one line, for the page of flakes

A profile is {"examples": {"NAME": {"status": "ok", "duration_s": 1.5,
"peak_memory_mb": 512}}} or a list of such objects, each with its name. MB are
1,000,000 bytes; nothing is converted.

Example:
  %[1]s compare base.json new.json --max-duration-pct=10

%[1]s compare --help, bisect --help, ab --help and junit --help have
the flags and the exit statuses.
`

// errHelp and errVersion request a text instead of a command.
var errHelp, errVersion = errors.New("help"), errors.New("version")

// Streams holds the program's input and outputs.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// subcommand runs one command of the program.
type subcommand interface {
	help() commandline.Help // usage without the program's name
	flags(fs *flag.FlagSet)
	// parse gets the arguments that are not flags: those before "--" and those after it.
	// dashed reports whether "--" occurs.
	parse(words, after []string, dashed bool) error
	run(ctx context.Context, h host.Host, s Streams) (exit int, err error)
}

func subcommands() map[string]subcommand {
	return map[string]subcommand{"compare": &options{}, "bisect": &bisectOptions{}, "ab": &abOptions{},
		"junit": &junitOptions{}}
}

// Run runs the program with the name of its command line, and args without that name. It
// returns the exit status. Processes that it starts end with ctx.
func Run(ctx context.Context, h host.Host, name, version string, args []string, s Streams) int {
	exit := exitWithin
	called, fs, err := parse(args)
	see := name
	if called != nil {
		see += " " + args[0]
	}
	switch {
	case errors.Is(err, errHelp) && called == nil:
		err = write(s.Out, fmt.Sprintf(usage, name))
	case errors.Is(err, errHelp):
		help := called.help()
		help.Flags = fs
		for i, line := range help.Usage {
			help.Usage[i] = name + " " + line
		}
		var b strings.Builder
		_ = help.Write(&b) // a Builder never fails
		err = write(s.Out, b.String())
	case errors.Is(err, errVersion):
		err = write(s.Out, name+" "+version+"\n")
	case err != nil:
		fmt.Fprintf(s.Err, "%s: %v; see %s --help\n", name, err, see)
		return exitWrong
	default:
		exit, err = called.run(ctx, h, s)
	}
	if err != nil {
		fmt.Fprintf(s.Err, "%s: %v\n", name, err)
		if exit == exitWithin {
			exit = exitWrong
		}
	}
	return exit
}

// parse parses a command line.
func parse(args []string) (subcommand, *flag.FlagSet, error) {
	const want = "want compare, bisect, ab or junit"
	if len(args) == 0 {
		return nil, nil, errors.New("cannot run without a command: " + want)
	}
	switch args[0] {
	case "--help", "-help", "-h", "help":
		return nil, nil, errHelp
	case "--version", "-version", "version":
		return nil, nil, errVersion
	}
	called, ok := subcommands()[args[0]]
	if !ok {
		return nil, nil, fmt.Errorf("cannot run %s: %s", quoted(args[0]), want)
	}
	fs := commandline.New("", nil)
	called.flags(fs)
	rest, err := readArguments(fs, args[1:])
	if err == nil {
		err = called.parse(rest.before, rest.after, rest.dashed)
	}
	return called, fs, err
}

// arguments holds the arguments that are no flags, before and after "--". dashed reports "--".
type arguments struct {
	before, after []string
	dashed        bool
}

// readArguments parses the flags, which may be before, between and after the other arguments.
func readArguments(fs *flag.FlagSet, args []string) (a arguments, err error) {
	for len(args) > 0 {
		if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
			return arguments{}, errHelp
		} else if err != nil {
			return arguments{}, fmt.Errorf("cannot read the flags: %s", visible(commandline.FlagError(fs, err).Error()))
		}
		rest := fs.Args()
		if n := len(args) - len(rest); n > 0 && args[n-1] == "--" {
			a.after, a.dashed = rest, true
			return a, nil
		}
		if len(rest) == 0 {
			break
		}
		a.before, args = append(a.before, rest[0]), rest[1:]
	}
	return a, nil
}

func write(w io.Writer, s string) error {
	if _, err := io.WriteString(w, s); err != nil {
		return fmt.Errorf("cannot write the output: %w", err)
	}
	return nil
}

// report formats the output of a command, for people and programs.
type report interface {
	Text() string
	Markdown() string
	JSON() string
	Verdict() string
}

// printing configures the output of a report.
type printing struct {
	format string
	output string // path of a file; empty: standard output
}

var formats = []string{"text", "json", "markdown"}

func (p *printing) flags(fs *flag.FlagSet) {
	p.format = "text"
	fs.Func("format", "`format` of the report: text, json or markdown (default text)", func(s string) error {
		if !slices.Contains(formats, s) {
			return fmt.Errorf("want %s", strings.Join(formats, ", "))
		}
		p.format = s
		return nil
	})
	fs.StringVar(&p.output, "o", "", "write the report to `file`, and only the verdict to standard output")
}

// print writes the report. It refuses to overwrite the inputs.
func (p *printing) print(r report, s Streams, inputs ...string) error {
	out := map[string]func() string{"text": r.Text, "json": r.JSON, "markdown": r.Markdown}[p.format]()
	if p.output == "" {
		return write(s.Out, out)
	}
	if err := replace(p.output, out, inputs...); err != nil {
		return err
	}
	return write(s.Out, r.Verdict()+"\n")
}
