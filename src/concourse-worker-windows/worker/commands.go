package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/version"
)

const about = "Installs and shows a Concourse worker with AMD GPUs. The commands need an administrator's PowerShell: open it " +
	"with \"Run as administrator\". With --dry-run, install and uninstall only show the changes."

// program is one run of the program.
type program struct {
	m        Machine
	out, err io.Writer
}

// errReported ends the program with ExitFailed, because the output has the reason.
var errReported = &commandline.ExitError{Status: commandline.ExitFailed}

// Main runs a command line without the program's name, and returns the exit status.
func Main(args []string, m Machine, out, errs io.Writer) int {
	p := program{m, out, errs}
	root := commandline.Group(&cobra.Command{Use: Program, Version: version.Version(), Long: about})
	root.AddCommand(installCommand(p), uninstallCommand(p), statusCommand(p), checkCommand(p),
		&cobra.Command{Use: runCommand, Hidden: true, Args: commandline.NoArgs, RunE: func(*cobra.Command, []string) error {
			return m.RunService(func(ctx context.Context) error { return serve(ctx, m) })
		}})
	return commandline.Run(context.Background(), root, args, out, errs)
}

func write(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

func installCommand(p program) *cobra.Command {
	c := &cobra.Command{Use: "install [flags]", Args: commandline.NoArgs,
		Short: "install and start a Concourse worker as a service, or change it",
		Long: "Installs Concourse's worker as the service " + ServiceName +
			" and starts it. It makes the worker's key " +
			"on this machine and prints the public half for the web's option extra-worker-keys. The tags are windows, " +
			"and for AMD GPUs gpu, rocm, gpu-count=N and gfx=...\n\nTasks run on the machine itself, with the " +
			"service's account. A later run ends running tasks, changes flags that are given and keeps the key and the " +
			"other settings.",
		Example: Program + ` install --concourse concourse-8.2.5-windows-amd64.zip` + "\n" +
			`  --tsa-host 10.0.0.10:2222 --tsa-public-key tsa_host_key.pub`}
	fs := c.Flags()
	var o installOptions
	fs.StringVar(&o.concourse, "concourse", "", "`file` concourse.exe, or Concourse's zip for Windows")
	fs.StringVar(&o.settings.TSAHost, "tsa-host", "", "`address` of the web's SSH server, host:2222")
	fs.StringVar(&o.keyFile, "tsa-public-key", "", "`file` tsa_host_key.pub of the web")
	fs.StringVar(&o.settings.Name, "name", "", "`name` of the worker (default: the computer's)")
	fs.StringVar(&o.settings.WorkDir, "work-dir", "", "`folder` for tasks (default C:\\concourse); keep it short")
	fs.IntVar(&o.settings.LimitGB, "work-limit-gb", 0, "`GB` from which files of tasks are removed (default 150)")
	fs.Func("tag", "additional `tag`; may be repeated", func(s string) error {
		o.settings.Tags = append(o.settings.Tags, s)
		return nil
	})
	fs.StringVar(&o.settings.Team, "team", "", "only tasks of this `team`")
	fs.StringVar(&o.settings.Account, "account", "", "`account` of tasks (default: the service's own)")
	fs.BoolVar(&o.offline, "offline", false, "do not connect to the web to compare its key")
	fs.BoolVar(&o.noStart, "no-start", false, "do not start the service")
	fs.BoolVar(&o.dryRun, "dry-run", false, "only show the changes")
	c.RunE = func(*cobra.Command, []string) error { return o.run(p) }
	return c
}

type installOptions struct {
	settings                 Settings
	concourse, keyFile       string
	offline, noStart, dryRun bool
}

func (o *installOptions) run(p program) error {
	if !o.dryRun {
		if err := p.m.CheckAdmin(); err != nil {
			return fmt.Errorf("cannot install: %w", err)
		}
	}
	i, err := o.installation(p.m)
	if err != nil {
		return fmt.Errorf("cannot install: %w", err)
	}
	if !i.offline {
		if err := checkTSA(i.settings.TSAHost, i.settings.TSAPublicKey, nil); err != nil {
			return fmt.Errorf("cannot install: %w; if the web is not running yet, add --offline", err)
		}
	}
	steps := i.steps()
	if o.dryRun {
		return show(p.out, steps)
	}
	if err := apply(steps, p.out); err != nil {
		return err
	}
	public, err := os.ReadFile(i.p.key() + ".pub")
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "\nAdd this line to the file of extra-worker-keys, unless it is there:\n\n%s\n"+
		"On the machine with Juju run: juju config web extra-worker-keys=@keys.txt\nThen run: %s check\n",
		public, Program)
	return nil
}

// installation joins the flags with the settings of an earlier installation.
func (o *installOptions) installation(m Machine) (i installation, err error) {
	i = installation{m: m, noStart: o.noStart, offline: o.offline, concourse: o.concourse}
	if i.p, err = pathsOf(m); err != nil {
		return i, err
	}
	service, err := m.Service()
	if err != nil {
		return i, err
	}
	i.first, i.running = !service.Installed, service.Running
	s := Settings{WorkDir: `C:\concourse`, LimitGB: 150, Account: DefaultAccount, Tags: []string{}}
	used := ""    // work folder
	if !i.first { // files that were there before are not ours
		switch old, err := readSettings(m, i.p); {
		case err == nil:
			s, used = old, old.WorkDir
		case !errors.Is(err, fs.ErrNotExist):
			return i, fmt.Errorf("cannot read %s: %w", i.p.settings(), explain(err))
		}
	}
	if o.keyFile != "" {
		data, err := os.ReadFile(o.keyFile)
		if err != nil {
			return i, fmt.Errorf("cannot read the key of the web: %w", err)
		}
		s.TSAPublicKey = strings.TrimSpace(string(data))
	}
	for _, set := range []struct {
		to    *string
		value string
	}{{&s.TSAHost, o.settings.TSAHost}, {&s.Name, o.settings.Name}, {&s.WorkDir, o.settings.WorkDir},
		{&s.Team, o.settings.Team}, {&s.Account, o.settings.Account}} {
		if set.value != "" {
			*set.to = set.value
		}
	}
	if o.settings.Tags != nil {
		s.Tags = o.settings.Tags
	}
	if o.settings.LimitGB != 0 {
		s.LimitGB = o.settings.LimitGB
	}
	if s.Name == "" {
		if s.Name, err = m.HostName(); err != nil {
			return i, err
		}
		s.Name = strings.ToLower(s.Name)
	}
	if i.settings = s; i.concourse == "" && i.first {
		return i, errors.New("--concourse is missing: concourse.exe, or Concourse's zip for Windows")
	}
	if i.concourse == "" {
		i.concourse = i.p.concourse()
	}
	if i.concourse, err = filepath.Abs(i.concourse); err != nil {
		return i, err
	}
	if err = i.settings.check(); err == nil && !strings.EqualFold(s.WorkDir, used) {
		err = checkWorkDir(s.WorkDir)
	}
	return i, err
}

func show(out io.Writer, steps []step) error {
	fmt.Fprintf(out, "%d changes:\n", len(steps))
	for _, s := range steps {
		fmt.Fprintln(out, "  "+s.op)
	}
	return nil
}

func uninstallCommand(p program) *cobra.Command {
	c := &cobra.Command{Use: "uninstall [flags]", Args: commandline.NoArgs,
		Short: "retire the worker and remove everything that install made",
		Long: "Retires the worker, so that the web sends no task any more, waits for its builds, and removes the " +
			"service, its rights, keys, settings, log, programs and work folder.",
		Example: Program + " uninstall --drain 2h"}
	fs := c.Flags()
	var keepKey, keepWork, dryRun bool
	drain := fs.Duration("drain", 10*time.Minute, "`time` to wait for running builds")
	fs.BoolVar(&keepKey, "keep-key", false, "keep the worker's key, for an installation later")
	fs.BoolVar(&keepWork, "keep-work", false, "keep the work folder")
	fs.BoolVar(&dryRun, "dry-run", false, "only show the changes")
	c.RunE = func(*cobra.Command, []string) error { return uninstall(p, *drain, keepKey, keepWork, dryRun) }
	return c
}

func uninstall(p program, drain time.Duration, keepKey, keepWork, dryRun bool) error {
	r := removal{m: p.m, drain: drain, keepKey: keepKey, keepWork: keepWork, warn: func(format string, args ...any) {
		fmt.Fprintf(p.err, "%s: %s\n", Program, fmt.Sprintf(format, args...))
	}}
	service, err := p.m.Service()
	if err == nil {
		r.p, err = pathsOf(p.m)
	}
	if err == nil && !dryRun {
		err = p.m.CheckAdmin()
	}
	if err != nil {
		return fmt.Errorf("cannot uninstall: %w", err)
	}
	if r.settings, err = readSettings(p.m, r.p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.warn("cannot read the settings, so the work folder stays: %v", explain(err))
	}
	self, err := p.m.SelfPath()
	if err == nil && !dryRun && strings.EqualFold(self, r.p.program()) {
		return fmt.Errorf("cannot uninstall: Windows cannot remove a running program; copy %s elsewhere and run "+
			"the copy", self)
	}
	steps := r.steps(service.Installed, service.Running)
	if dryRun {
		return show(p.out, steps)
	}
	return apply(steps, p.out)
}

func statusCommand(p program) *cobra.Command {
	c := &cobra.Command{Use: "status [flags]", Args: commandline.NoArgs,
		Short: "show the service, its registration, tags and work folder",
		Long: "Shows the service, its registration at the web, its tags and its work folder. " +
			"It needs an administrator's PowerShell.",
		Annotations: map[string]string{commandline.Exit: "0 the worker runs, 1 it does not, 2 wrong command line."}}
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.RunE = func(*cobra.Command, []string) error {
		st, err := statusOf(p.m)
		if err != nil {
			return fmt.Errorf("cannot read the status: %w", err)
		}
		if *asJSON {
			err = writeJSON(p.out, st)
		} else {
			err = write(p.out, st.text(time.Now()))
		}
		if err == nil && st.Problem != "" {
			return errReported
		}
		return err
	}
	return c
}

func checkCommand(p program) *cobra.Command {
	c := &cobra.Command{Use: "check [flags]", Args: commandline.NoArgs,
		Short: "compare the machine with the requirements of ROCm builds",
		Long: "Compares the machine with the requirements of ROCm builds on Windows, and tries " +
			"the installed worker: its account, the web and the hosts that builds load from. Each row that is not ok " +
			"has the command that helps. It needs an administrator's PowerShell.",
		Annotations: map[string]string{commandline.Exit: "0 no row failed, 1 a row failed, 2 wrong command line."}}
	fs := c.Flags()
	asJSON := fs.Bool("json", false, "print JSON")
	offline := fs.Bool("offline", false, "request no host")
	c.RunE = func(*cobra.Command, []string) error { return check(p, *asJSON, *offline) }
	return c
}

func check(p program, asJSON, offline bool) error {
	st, err := statusOf(p.m)
	if err != nil {
		return fmt.Errorf("cannot check: %w", err)
	}
	at, err := pathsOf(p.m)
	if err != nil {
		return fmt.Errorf("cannot check: %w", err)
	}
	workDir := `C:\`
	if st.Settings != nil {
		workDir = st.Settings.WorkDir
	}
	gpus, err := p.m.GPUs()
	if err != nil {
		return fmt.Errorf("cannot list the GPUs: %w", err)
	}
	facts := p.m.Facts(workDir)
	seen, err := look(p.m, at, hipInfoOf(facts))
	if err != nil {
		return fmt.Errorf("cannot check: %w", err)
	}
	rows := slices.Concat(machineRows(facts, gpus), seen.rows(), workerRows(st, loginAt(at)))
	if !offline {
		wheels := []string{"github.com", "pypi.org", "download.pytorch.org", "download.microsoft.com"} // of ROCm
		rows = slices.Concat(rows, hostRows(wheels, request))
	}
	if asJSON {
		err = writeJSON(p.out, rows)
	} else {
		err = write(p.out, rowsText(rows))
	}
	if err == nil && slices.ContainsFunc(rows, func(r Row) bool { return r.Level == Failed }) {
		return errReported
	}
	return err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
