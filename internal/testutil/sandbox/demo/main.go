package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `sandbox demo [-v] [-bin FOLDER]   play a ROCm worker's life in a throwaway folder
  -v           show plans step by step, and each call of a hook tool
  -bin FOLDER  where the built programs are (default bin)
On a terminal it ends with the status page, served until Ctrl-C. With CI or NO_SERVE=1
in the environment, or without a terminal, it does not wait.
Run it in the project's folder, after make build (make demo does both; make demo
VERBOSE=1 is -v).
`

// Main runs the demo. The exit status is 0 for success or a closed pipe, 1 for an error, 2
// for wrong usage, and 128 plus its number for a signal. Ctrl-C at the status page is a
// success.
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == taskChild {
		return runTaskChild(stdout, stderr)
	}
	flags := flag.NewFlagSet("sandbox demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	verbose, bin := flags.Bool("v", false, ""), flags.String("bin", "bin", "")
	if len(args) == 0 || args[0] != "demo" || flags.Parse(args[1:]) != nil || flags.NArg() > 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer catchSignals(cancel)()
	d := &demo{ctx: ctx, bin: *bin, verbose: *verbose, screen: newScreen(stdout, os.Getenv, cancel)}
	err := d.play()
	d.summary(err)
	if err == nil {
		if why := noWait(stdout, os.Getenv); why != "" {
			d.screen.mark(notRun, "a look at the status page: %s", why)
		} else {
			defer takeTerminal()()
			err = d.serve()
		}
	}
	if cerr := d.close(); err == nil {
		err = cerr
	}
	return d.end(err, stderr)
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
	return 0
}

// summary prints a line for each scene, unless a signal or a closed pipe ended the demo.
func (d *demo) summary(err error) {
	var cause interrupted
	switch {
	case errors.As(err, &cause), errors.Is(err, syscall.EPIPE):
		return
	case err == nil:
		d.screen.title("Shown")
	default:
		d.screen.title("Stopped")
	}
	for _, s := range scenes {
		m, text := notRun, ""
		if o, ended := d.outcomes[s.name]; ended {
			m, text = o.mark, ": "+o.text
		}
		d.screen.mark(m, "%s%s", s.name, text)
	}
}
