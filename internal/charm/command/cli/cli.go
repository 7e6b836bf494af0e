// Package cli implements the command line of dispatch. It distinguishes a call by Juju from
// a user's command, and passes both to packages charm and actions. It makes no other
// decision.
package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/actions"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/onemachine"
)

// Main runs dispatch or gpukit on this machine, below CHARM_ROOT. It returns the exit status
// of Run.
func Main(program wellknown.Program, args []string, env func(string) string, stdout, stderr io.Writer) int {
	// Programs that dispatch starts, such as apt, create files that all users must read.
	syscall.Umask(0o022)
	exe, err := os.Executable()
	if err != nil {
		return fail(stderr, fmt.Errorf("cannot find this program's file: %w", err))
	}
	return Run(host.New(env("CHARM_ROOT")), program, exe, args, env, stdout, stderr)
}

// Run runs dispatch or gpukit on a machine. exe is the program's file. It returns the exit
// status: 0 if done or reported in the unit's status, 1 if failed (Juju retries the hook), 2
// if the command line is invalid.
func Run(h host.Host, program wellknown.Program, exe string, args []string, env func(string) string,
	stdout, stderr io.Writer) int {
	ctx := context.Background()
	machine := len(args) > 0 && filepath.Base(args[0]) == wellknown.MachineProgram
	if machine || program == wellknown.Dispatch && len(args) > 1 && onemachine.Installed(h.Root) {
		program = wellknown.MachineProgram // its units start the file dispatch
	}
	c := &actions.Actions{Charm: &charm.Charm{Program: program, Host: h, NewID: newID, Stderr: stderr,
		CharmDir: charmDir(exe, env)}}
	if wellknown.ServesCommands(exe) {
		c.Start = func(args ...string) error { return host.Detach(exe, args...) }
		c.Probe = actions.NewProbe(c.Host, exe, "gpu", probe)
		c.ReadReport = gpuhealth.NewReader(c.Host, c.Commands(), exe, "gpu", snapshot)
	}
	if len(args) == 1 && program != wellknown.Dispatch {
		args = append(args, "--help") // only dispatch runs hooks
	}
	if len(args) > 1 {
		return runCommand(ctx, c, args[1:], env, stdout, stderr)
	}
	event, err := juju.ParseEvent(env)
	if errors.Is(err, juju.ErrNotJuju) {
		return runCommand(ctx, c, []string{"--help"}, env, stdout, stderr)
	}
	if err != nil {
		return fail(stderr, err)
	}
	c.Event, c.Tools = event, juju.New(c.Host)
	run := c.Hook
	if event.Action != nil {
		run = c.Action
	}
	if err := run(ctx); err != nil {
		// Juju writes stderr to the unit's log. The trace has the origin of the error.
		fmt.Fprintln(stderr, jujuerrors.ErrorStack(err))
		return 1
	}
	return 0
}

func fail(stderr io.Writer, err error) int {
	fmt.Fprintln(stderr, err)
	return 1
}

// charmDir returns the charm's folder: from Juju, or the program's folder in a command.
func charmDir(exe string, env func(string) string) string {
	if d := env("JUJU_CHARM_DIR"); d != "" {
		return d
	}
	return filepath.Dir(exe)
}

func newID() string {
	var b [4]byte
	rand.Read(b[:]) // never fails: on an error crypto/rand ends the program
	return hex.EncodeToString(b[:])
}

// execProgram replaces this process with another program. Tests replace the variable.
var execProgram = syscall.Exec

// execBaseline replaces dispatch with the charm's program gpu-baseline, which is not
// linked into dispatch. It returns only if the program cannot be started.
func (p *caller) execBaseline(args []string) error {
	file := filepath.Join(p.charm.CharmDir, "bin", "gpu-baseline")
	err := execProgram(file, append([]string{file}, args...), os.Environ())
	return fmt.Errorf("cannot start %s: %w", file, err)
}
