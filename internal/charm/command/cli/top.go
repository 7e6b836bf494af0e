package cli

import (
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/charm/command/actions"
	"concourse-ci-machine/internal/charm/command/term"
)

func (p *caller) topCommand() command {
	interval, once := 2*time.Second, false
	return command{words: "gpu top", json: true, text: "show live who uses each GPU",
		long: "Shows who uses each AMD GPU, as rocm-exporter reports: container, memory, engine time " +
			"and lease. Engine time is the busy share between the exporter's last two looks at the " +
			"processes. The display repeats until Ctrl-C. If no exporter answers, the command reads the " +
			"GPUs once itself.",
		flags: func(fs *pflag.FlagSet) {
			fs.DurationVar(&interval, "interval", interval, "`TIME` between two requests to the exporter, 1s or more")
			fs.BoolVar(&once, "once", false, "show it once, as if the output is no terminal")
		},
		run: func([]string) error {
			if interval < time.Second {
				return &usageError{text: fmt.Sprintf(
					"cannot show who uses the GPUs every %s: want 1s or more", interval,
				)}
			}
			if once || p.format.JSON || p.screen == nil {
				return p.charm.GPUTop(p.ctx, p.stdout, p.format, actions.Top{})
			}
			return p.repeatTop(interval)
		}}
}

// repeatTop shows who uses the GPUs on a terminal until a signal comes.
func (p *caller) repeatTop(interval time.Duration) error {
	ctx, stop := signal.NotifyContext(p.ctx, os.Interrupt, unix.SIGTERM)
	defer stop()
	again := time.NewTicker(interval)
	defer again.Stop()
	fmt.Fprint(p.stdout, "\x1b[2J")
	return p.charm.GPUTop(ctx, p.stdout, p.format, actions.Top{Refresh: again.C, Rows: func() int {
		_, rows := term.Size(p.screen)
		return rows
	}})
}
