// Package cli implements the command line of dispatch. It distinguishes a call by Juju from a
// call by a person, and hands both to packages charm and actions. It decides nothing else.
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

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/charm"
	"concourse-ci-machine/internal/charm/command/actions"
	"concourse-ci-machine/internal/charm/gpuhealth"
	"concourse-ci-machine/internal/charm/juju"
)

// Main runs dispatch on this machine, below CHARM_ROOT. It returns what Run returns.
func Main(args []string, env func(string) string, stdout, stderr io.Writer) int {
	// The programs that it starts, as apt, make files that all have to read.
	syscall.Umask(0o022)
	exe, err := os.Executable()
	if err != nil {
		return fail(stderr, fmt.Errorf("cannot find this program's file: %w", err))
	}
	return Run(host.New(env("CHARM_ROOT")), exe, args, env, stdout, stderr)
}

// Run runs dispatch, whose file is exe, on a machine. It returns the exit status: 0 done or
// honestly reported in the unit's status, 1 failed (Juju runs the hook again), 2 called wrongly.
func Run(h host.Host, exe string, args []string, env func(string) string, stdout, stderr io.Writer) int {
	ctx := context.Background()
	c := &actions.Actions{Charm: &charm.Charm{Host: h, NewID: newID, Stderr: stderr, CharmDir: charmDir(exe, env)}}
	if filepath.Base(exe) == wellknown.Dispatch {
		c.Start = func(args ...string) error { return host.Detach(exe, args...) }
		c.Probe, c.Read = actions.NewProbe(c.Host, exe, "gpu", probe), gpuhealth.NewReader(c.Host, exe, "gpu", read)
	}
	if len(args) > 1 {
		return runPerson(ctx, c, args[1:], env, stdout, stderr)
	}
	event, err := juju.ParseEvent(env)
	if errors.Is(err, juju.ErrNotJuju) {
		return runPerson(ctx, c, []string{"--help"}, env, stdout, stderr)
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
		// Juju puts stderr into the unit's log; the trace says where it began.
		fmt.Fprintln(stderr, jujuerrors.ErrorStack(err))
		return 1
	}
	return 0
}

func fail(stderr io.Writer, err error) int {
	fmt.Fprintln(stderr, err)
	return 1
}

// charmDir is where the charm's files are: Juju says so, and for a person it
// is where the program lies.
func charmDir(exe string, env func(string) string) string {
	if d := env("JUJU_CHARM_DIR"); d != "" {
		return d
	}
	return filepath.Dir(exe)
}

func newID() string {
	var b [4]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}
