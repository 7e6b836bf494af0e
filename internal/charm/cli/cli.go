// Package cli is the command line of dispatch: it tells a call by Juju from a
// call by a person, and hands both to package charm. It holds no logic of its
// own beyond reading arguments and choosing an exit status.
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
	"strings"
	"time"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/charm"
	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/juju"
	"concourse-ci-machine/internal/version"
)

const usage = `dispatch is the charm concourse-ci-machine. Juju runs it for hooks and actions.
On a unit, as root, it also answers:

  dispatch plan                 what the charm would change now, and why; changes nothing
  dispatch gpu list [--json]    the unit's GPUs, and those that do not count with the reason
  dispatch --version
  dispatch --help

Environment: CHARM_ROOT=/prefix works on the file tree below /prefix instead of /.
`

// Main runs dispatch. Exit status: 0 done or honestly reported in the unit's
// status, 1 failed (Juju runs the hook again), 2 called wrongly.
func Main(args []string, env func(string) string, stdout, stderr io.Writer) int {
	ctx := context.Background()
	c := &charm.Charm{Host: host.New(env("CHARM_ROOT")), Sleep: time.Sleep, NewID: newID, Stderr: stderr, CharmDir: charmDir(env)}
	if len(args) > 1 {
		return person(ctx, c, args[1:], stdout, stderr)
	}
	event, err := juju.ParseEvent(env)
	if errors.Is(err, juju.ErrNotJuju) {
		fmt.Fprint(stdout, usage)
		return 0
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

func person(ctx context.Context, c *charm.Charm, args []string, stdout, stderr io.Writer) int {
	wrong := func(format string, a ...any) int {
		fmt.Fprintf(stderr, format+"; see dispatch --help\n", a...)
		return 2
	}
	switch args[0] {
	case "--help", "-h", "help":
		fmt.Fprint(stdout, usage)
		return 0
	case "--version", "version":
		fmt.Fprintln(stdout, "concourse-ci-machine", version.Version)
		return 0
	case "plan":
		if len(args) > 1 {
			return wrong("cannot plan %q: plan takes no arguments", args[1])
		}
		if err := c.ShowPlan(ctx, stdout); err != nil {
			return fail(stderr, err)
		}
		return 0
	case "gpu":
		if len(args) < 2 || args[1] != "list" {
			return wrong("cannot run gpu without a command: want gpu list")
		}
		asJSON := len(args) == 3 && args[2] == "--json"
		if len(args) > 2 && !asJSON {
			return wrong("cannot list GPUs with %q: only --json is known", strings.Join(args[2:], " "))
		}
		if err := c.ListGPUs(stdout, asJSON); err != nil {
			return fail(stderr, err)
		}
		return 0
	}
	return wrong("cannot run %q: no such command", args[0])
}

func fail(stderr io.Writer, err error) int {
	fmt.Fprintln(stderr, err)
	return 1
}

// charmDir is where the charm's files are: Juju says so, and for a person it
// is where the program lies.
func charmDir(env func(string) string) string {
	if d := env("JUJU_CHARM_DIR"); d != "" {
		return d
	}
	exe, err := os.Executable()
	if err != nil {
		return "."
	}
	return filepath.Dir(exe)
}

func newID() string {
	var b [4]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}
