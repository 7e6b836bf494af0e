package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/charm/command/actions"
	"concourse-ci-machine/internal/charm/command/term"
)

const topUsage = `Usage: dispatch gpu top [flags]

Shows who uses each AMD GPU, as rocm-exporter tells: container, memory, engine time
and lease, with the busy time of each engine between the exporter's last two looks at
the processes, and what the GPU does. It shows that again and again; Ctrl-C ends it.

  --interval=TIME  time between two questions to the exporter, 1s or more (default 2s)
  --once           show it once, as is done where the output is no terminal
  --json           show it once, as JSON: the exporter's /api/v1/gpus without the past
  --help           print this text and exit

Exit status: 0 done, 1 the exporter does not answer, 2 wrong command line.
`

// top shows the users of the GPUs.
func (p *caller) top(args []string) int {
	fs := flag.NewFlagSet("gpu top", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors and usage are printed here
	interval, once := fs.Duration("interval", 2*time.Second, ""), fs.Bool("once", false, "")
	fs.BoolVar(&p.format.JSON, "json", false, "")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(p.stdout, topUsage)
		return 0
	case err != nil:
		return p.usageError("cannot show who uses the GPUs: %v", err)
	case fs.NArg() > 0:
		return p.usageError("cannot show who uses the GPUs with %q: only flags are known", fs.Arg(0))
	case *interval < time.Second:
		return p.usageError("cannot show who uses the GPUs every %s: want 1s or more", *interval)
	}
	if *once || p.format.JSON || p.screen == nil {
		return p.exitStatus(p.charm.GPUTop(p.ctx, p.stdout, p.format, actions.Top{}))
	}
	ctx, stop := signal.NotifyContext(p.ctx, os.Interrupt, unix.SIGTERM)
	defer stop()
	return p.exitStatus(refreshTop(ctx, p, *interval))
}

func refreshTop(ctx context.Context, p *caller, interval time.Duration) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	fmt.Fprint(p.stdout, "\x1b[2J")
	return p.charm.GPUTop(ctx, p.stdout, p.format, actions.Top{Refresh: ticker.C, Rows: func() int {
		_, rows := term.Size(p.screen)
		return rows
	}})
}
