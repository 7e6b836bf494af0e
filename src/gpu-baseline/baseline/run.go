package baseline

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

const about = `gpu-baseline compares profiles that a benchmark writes. A profile is
{"examples": {"NAME": {"status": "ok", "duration_s": 1.5, "peak_memory_mb": 512}}} or a list
of such objects, each with its name. MB are 1,000,000 bytes; nothing is converted.`

// Streams holds the program's input and outputs.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// subcommand runs one command of the program.
type subcommand interface {
	cobra() *cobra.Command // without flags
	flags(fs *pflag.FlagSet)
	// parse gets the arguments that are not flags: those before "--" and those after it.
	// dashed reports whether "--" occurs.
	parse(words, after []string, dashed bool) error
	run(ctx context.Context, h host.Host, s Streams) (exit int, err error)
}

// Run runs the program with the name of its command line, and args without that name. It
// returns the exit status. Processes that it starts end with ctx.
func Run(ctx context.Context, h host.Host, name, version string, args []string, s Streams) int {
	root := commandline.Group(&cobra.Command{Use: name, Version: version, Long: about,
		Example: name + " compare base.json new.json --max-duration-pct=10"})
	for _, sub := range []subcommand{&options{}, &bisectOptions{}, &abOptions{}, &junitOptions{}} {
		c := sub.cobra()
		sub.flags(c.Flags())
		c.RunE = func(c *cobra.Command, words []string) error {
			dash := c.ArgsLenAtDash()
			before, after := words, words[len(words):]
			if dash >= 0 {
				before, after = words[:dash:dash], words[dash:]
			}
			if err := sub.parse(before, after, dash >= 0); err != nil {
				return commandline.Wrong(c, err)
			}
			exit, err := sub.run(ctx, h, s)
			switch {
			case err != nil && exit == exitWithin:
				exit = exitWrong
			case exit == exitWithin:
				return nil
			}
			return &commandline.ExitError{Status: exit, Err: err}
		}
		root.AddCommand(c)
	}
	return commandline.Run(ctx, root, args, s.Out, s.Err)
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

func (p *printing) flags(fs *pflag.FlagSet) {
	p.format = "text"
	fs.Func("format", "`format` of the report: text, json or markdown (default text)", func(s string) error {
		if !slices.Contains(formats, s) {
			return fmt.Errorf("want %s", strings.Join(formats, ", "))
		}
		p.format = s
		return nil
	})
	fs.StringVarP(&p.output, "o", "o", "", "write the report to `file`, and only the verdict to standard output")
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
