package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `sandbox demo [-v] [-hooks] [-option NAME=VALUE] [-bin FOLDER]
                      show the charm at work
  -v                  show plans step by step, and each call of a hook tool
  -hooks              play the hooks of a ROCm worker, also as root
  -option NAME=VALUE  set an option of the CI, several times if needed; without a
                      feature that it shows, the demo fails
  -bin FOLDER         where the built programs are (default bin)
As root it sets up a whole CI on a throwaway machine, with the Concourse release that
CONCOURSE_RELEASE names, or a downloaded one. Otherwise it plays the hooks of a ROCm
worker in a throwaway folder.
On a terminal it ends with the CI or the status page, served until Ctrl-C. With CI or
NO_SERVE=1 in the environment, or without a terminal, it does not wait.
Run it in the project's folder, after make build (make demo does both; VERBOSE=1 is -v,
HOOKS=1 is -hooks).
`

// Main runs the demo. The exit status is 0 for success or a closed pipe, 1 for an error, 2
// for wrong usage, and 128 plus its number for a signal. Ctrl-C at the end is a success.
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == taskChild {
		return runTaskChild(stdout, stderr)
	}
	flags := flag.NewFlagSet("sandbox demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	verbose, bin := flags.Bool("v", false, ""), flags.String("bin", "bin", "")
	hooksOnly := flags.Bool("hooks", false, "")
	set := options{}
	flags.Var(set, "option", "")
	if len(args) == 0 || args[0] != "demo" || flags.Parse(args[1:]) != nil || flags.NArg() > 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer catchSignals(cancel)()
	d := &demo{bin: *bin, verbose: *verbose, hooksOnly: *hooksOnly, options: set}
	d.ctx, d.screen = ctx, newScreen(stdout, os.Getenv, cancel)
	err := d.run()
	if cerr := d.close(); err == nil {
		err = cerr
	}
	return d.end(err, stderr)
}

// options holds options of the CI by name.
type options map[string]string

// String implements flag.Value.
func (o options) String() string { return "" }

// Set adds NAME=VALUE.
func (o options) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("cannot read the option %q: it is not NAME=VALUE", text)
	}
	o[name] = value
	return nil
}

// run plays the demo that this machine can run.
func (d *demo) run() error {
	c, why, err := d.choose()
	if cause := context.Cause(d.ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	if why == "" {
		return d.ci(c)
	}
	err = d.hooksDemo(why)
	d.summary(err)
	if err != nil {
		return err
	}
	if why := noWait(d.screen.out, os.Getenv); why != "" {
		d.screen.mark(notRun, "a look at the status page: %s", why)
		return nil
	}
	defer takeTerminal()()
	return d.serve()
}

// interrupted holds the signal that ended the demo.
type interrupted struct{ signal syscall.Signal }

func (e interrupted) Error() string { return e.signal.String() }

// catchSignals lets running hooks finish and created files be removed at the first signal.
// A closed pipe then is a write error, and does not end the program.
func catchSignals(cancel context.CancelCauseFunc) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		for s := range signals {
			cancel(interrupted{s.(syscall.Signal)})
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}

// end shows the result.
func (d *demo) end(err error, stderr io.Writer) int {
	var cause interrupted
	switch {
	case errors.As(err, &cause):
		fmt.Fprintf(stderr, "sandbox: stopped: %s; nothing was left behind\n", cause)
		return 128 + int(cause.signal)
	case errors.Is(err, syscall.EPIPE):
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "sandbox:", err)
		return 1
	}
	d.screen.line("")
	d.screen.line("Nothing was left behind.")
	if d.kept != "" {
		d.screen.prose("Kept for the next run: the downloads in " + d.kept + ".")
	}
	return 0
}
