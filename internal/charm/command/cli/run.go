package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/workstation"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/gpurun"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// interrupted is the exit status of a command that Ctrl-C ended.
const interrupted = 128 + int(syscall.SIGINT)

// exitRefused is the exit status of a run without its command, as of docker run.
const exitRefused = 125

// leaseFlags holds the flags of run and lease.
type leaseFlags struct {
	gpus                     int
	ids                      []string
	arch, memory, wait, name string
	pid                      int
	bench                    bool
}

func (f *leaseFlags) add(fs *pflag.FlagSet) {
	fs.IntVar(&f.gpus, "gpus", 1, "`N` GPUs")
	fs.StringSliceVar(&f.ids, "gpu-id", nil, "these GPUs: `ID` is a number, a PCI address or GPU-<unique id>")
	fs.StringVar(&f.arch, "arch", "", "only GPUs with this `GFX`, such as gfx942")
	fs.StringVar(&f.memory, "memory", "", "only GPUs with this `SIZE` of memory free, such as 40GiB")
	fs.StringVar(&f.wait, "wait", "", "`TIME` to wait, such as 30m; 0 fails at once (default: no limit)")
	fs.BoolVar(&f.bench, "bench", false, "fix the clocks of the GPUs until the run ends, to measure")
	fs.StringVar(&f.name, "name", "", "`TEXT` for people who wait for the GPUs (default: the job of a runner, "+
		"otherwise your name and COMMAND)")
}

// request returns the request of the flags, and how long it may wait.
func (f *leaseFlags) request(env func(string) string, given func(flag string) bool) (r gpurun.Request,
	limit time.Duration, err error) {
	r = gpurun.Request{GPUs: f.gpus, IDs: f.ids, Arch: f.arch, Bench: f.bench}
	switch {
	case len(f.ids) > 0 && given("gpus"):
		return r, 0, &commandline.UsageError{Text: "cannot use --gpus and --gpu-id together"}
	case len(f.ids) > 0:
		r.GPUs = 0
	case f.gpus < 1:
		return r, 0, &commandline.UsageError{Text: fmt.Sprintf("cannot lease %d GPUs: want --gpus=1 or more", f.gpus)}
	}
	if limit = -1; f.wait != "" {
		if limit, err = time.ParseDuration(f.wait); err != nil || limit < 0 {
			return r, 0, &commandline.UsageError{
				Text: fmt.Sprintf("cannot wait %q: want a time such as 30m, or 0", f.wait)}
		}
	}
	if f.memory != "" {
		if r.Memory, err = units.ParseBytes(f.memory); err != nil {
			return r, 0, &commandline.UsageError{Text: fmt.Sprintf("cannot request --memory=%s: %v", f.memory, err)}
		}
	}
	r.Title, r.Job = gpurun.JobOf(env)
	r.Title = cmp.Or(gpurun.CleanTitle(f.name), r.Title)
	return r, limit, nil
}

func (p *caller) runCommand() command {
	var f leaseFlags
	var flags *pflag.FlagSet
	return command{words: "run", only: wellknown.GPUKit, args: "-- COMMAND [ARG]...", min: 1, max: -1,
		text: "run a command with GPUs that no other run, container or task has",
		long: "Waits until GPUs are free and healthy, first come, first served, and runs COMMAND with them. The GPUs " +
			"are leased as long as COMMAND and what it started run. The kernel refuses it the other GPUs.\n\n" +
			"Exit status: COMMAND's; 128 and the number of its signal; 125 without GPUs; 126 or 127 if COMMAND " +
			"cannot be started.",
		example: p.name() + " run -- pytest\n" +
			p.name() + " run --gpus 2 --arch gfx942 --wait 30m -- python3 train.py",
		flags: func(fs *pflag.FlagSet) {
			fs.SetInterspersed(false) // the flags after COMMAND are its own
			f.add(fs)
			flags = fs
		},
		run: func(argv []string) error {
			r, limit, err := f.request(p.env, flags.Changed)
			if err != nil {
				return err
			}
			r.Command = gpurun.CommandOf(argv)
			r.Job = cmp.Or(r.Job, r.Command)
			return p.run(r, limit, argv)
		}}
}

func (p *caller) leaseCommand() command {
	var f leaseFlags
	var flags *pflag.FlagSet
	return command{words: "lease", only: wellknown.GPUKit,
		text: "lease GPUs for a running process and all that it starts from now on",
		long: "Waits as run does, and prints the variables of the GPUs as NAME=VALUE. The GPUs are leased until the " +
			"process and what it starts have ended. Processes that it started before can still open other GPUs.",
		example: p.name() + " lease --pid $PPID >>\"$GITHUB_ENV\"",
		flags: func(fs *pflag.FlagSet) {
			f.add(fs)
			fs.IntVar(&f.pid, "pid", 0, "`PID` of your process")
			flags = fs
		},
		run: func([]string) error {
			r, limit, err := f.request(p.env, flags.Changed)
			if err != nil {
				return err
			}
			if f.pid < 1 {
				return &commandline.UsageError{Text: "cannot lease GPUs without a process: want --pid=PID"}
			}
			return p.lease(r, limit, f.pid)
		}}
}

// tell writes a line for people beside the output of a command.
func (p *caller) tell(format string, args ...any) {
	fmt.Fprintf(p.stderr, p.name()+": "+format+"\n", args...)
}

// refused returns the error of a run that does not start its command.
func (p *caller) refused(err error) error {
	return &commandline.ExitError{Status: exitRefused, Err: fmt.Errorf("%s: %w", p.name(), err)}
}

// acquire waits for GPUs and shows which ones they are.
func (p *caller) acquire(r gpurun.Request, limit time.Duration) (*gpurun.Held, error) {
	began := p.charm.Host.Now()
	c := gpurun.Client{Socket: p.charm.Host.Path(gpurun.Socket), Limit: limit, Waits: func(why string) {
		p.tell("waiting for %s: %s", units.Duration(time.Since(began)), strings.TrimPrefix(why, "cannot lease "))
	}}
	h, err := c.Lease(r)
	if err != nil {
		if unit, _ := workstation.UnitOf(p.charm.Host.Root); unit != "" {
			err = workstation.OwnedError(unit)
		} else if missing := workstation.CheckGPU(p.charm.Host.Root); missing != nil {
			err = missing
		}
		return nil, p.refused(err)
	}
	p.tell("%s", h.Text(time.Since(began)))
	for _, g := range h.GPU {
		if g.Taken > 0 {
			p.tell("others use %d %% of the memory of GPU %d", g.Taken, g.Number)
		}
	}
	if h.Unlimited != "" {
		p.tell("the other GPUs are not hidden from the command: %s", h.Unlimited)
	}
	return h, nil
}

func (p *caller) run(r gpurun.Request, limit time.Duration, argv []string) error {
	h, err := p.acquire(r, limit)
	if err != nil {
		return err
	}
	began := p.charm.Host.Now()
	status, err := host.Foreground(argv, append(os.Environ(), h.Variables...))
	h.End(status)
	switch {
	case err != nil:
		return &commandline.ExitError{Status: status, Err: fmt.Errorf("%s: %w", p.name(), err)}
	case status == 0:
		return nil
	case status != interrupted:
		p.explainRun(h.Grant, began)
	}
	return &commandline.ExitError{Status: status}
}

// explainRun shows why a run failed. Without a recorder it shows faults of its GPUs.
func (p *caller) explainRun(g gpurun.Grant, began time.Time) {
	if s, err := verdict.WaitForSummary(p.ctx, p.charm.Host.Root, g.Run); err == nil {
		if why := s.Why(); why != "" {
			p.tell("%s", why)
		}
		return
	}
	record, err := quarantine.RecordFile.Read(p.charm.Host.Root)
	if err != nil {
		return
	}
	for _, one := range g.GPU {
		if s := record.Find(one.Address); s != nil && s.State != quarantine.InService && !s.Since.Before(began) {
			p.tell("GPU %d had a fault during %s and %s", one.Number, g.Run, s.Text())
		}
	}
}

func (p *caller) lease(r gpurun.Request, limit time.Duration, pid int) error {
	target, err := lease.Leases{}.ProcessOf(pid)
	if err != nil {
		return p.refused(err)
	}
	r.Process = &target
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
		r.Command = strings.TrimSpace(string(name))
	}
	h, err := p.acquire(r, limit)
	if err != nil {
		return err
	}
	defer h.Close()
	_, err = fmt.Fprintln(p.stdout, strings.Join(h.Variables, "\n"))
	return err
}

// serveRunsCommand runs the lease service, which systemd starts for a connection.
func (p *caller) serveRunsCommand() command {
	return command{words: "serve-runs", hidden: true, only: wellknown.GPUKit, run: func([]string) error {
		program, err := os.Executable()
		if err != nil {
			return err
		}
		s, err := workstation.NewRunServer(p.charm.Host, program, p.stderr)
		if err != nil {
			return err
		}
		s.Explain = func(run string, json bool) (string, error) {
			var b strings.Builder
			err := p.charm.WhyForUser(p.ctx, &b, run, term.Format{JSON: json})
			return b.String(), err
		}
		listeners, err := activation.Listeners()
		if err == nil && len(listeners) != 1 {
			err = errors.New("systemd starts it: sudo systemctl start gpukit-run.socket")
		}
		if err != nil {
			return fmt.Errorf("cannot serve runs: %w", err)
		}
		if _, ok := listeners[0].(*net.UnixListener); !ok {
			return errors.New("cannot serve runs: its socket is not a unix socket")
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return s.Serve(ctx, listeners[0])
	}}
}
