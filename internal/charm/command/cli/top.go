package cli

import (
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/actions"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/top"
)

func (p *caller) topCommand() command {
	interval, once := 2*time.Second, false
	return command{words: "gpu top", json: true, text: "show live who uses each GPU",
		long: "Shows temperature, power, memory, load, state and users of each GPU, as rocm-exporter reports. " +
			"A wider terminal also gets leases, memory and engine time of the users. The display repeats until " +
			"Ctrl-C. Engine time is the busy share between the exporter's last two looks at the processes. If no " +
			"exporter answers, the command shows the last record of the GPUs once, or reads them itself.",
		flags: func(fs *pflag.FlagSet) {
			fs.DurationVar(&interval, "interval", interval, "`TIME` between two requests to the exporter, 1s or more")
			fs.BoolVar(&once, "once", false, "show all GPUs once, with idle partitions")
		},
		run: func([]string) error {
			if interval < time.Second {
				return &commandline.UsageError{Text: fmt.Sprintf(
					"cannot show who uses the GPUs every %s: want 1s or more", interval)}
			}
			how := actions.Top{}
			if p.screen != nil {
				how.Columns, _ = term.Size(p.screen)
			}
			if once || p.format.JSON || p.screen == nil {
				return p.charm.GPUTop(p.ctx, p.stdout, p.format, how)
			}
			// With a handler, the terminal is restored after these signals.
			ctx, stop := signal.NotifyContext(p.ctx, os.Interrupt, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
			defer stop()
			how.Live = &top.Live{Screen: p.screen, Format: p.format, Every: interval}
			return p.charm.GPUTop(ctx, p.stdout, p.format, how)
		}}
}
