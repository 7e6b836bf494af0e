// Package oci is the logic of runc-amd-wrapper, which stands in front of runc
// and adds the unit's GPUs, folders and certificates to the containers of Concourse tasks:
// what CDI specs and the unit's configuration say, under a device policy of its
// own, at create and run; groups and environment at exec where those are
// needed. Where GPUs are exclusive it leases them first (internal/pool/lease). All
// other calls become the real runc at once.
//
// It never starts a task without the GPUs that its unit promises: what can't
// be done is refused with a reason. It never changes a node of the host, logs
// nothing on success, and needs the standard library and golang.org/x/sys only.
package oci

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"concourse-ci-machine/internal/oci/cmdline"
	"concourse-ci-machine/internal/oci/deadmount"

	"golang.org/x/sys/unix"
)

// wrapper is one call: who calls, and on which machine.
type wrapper struct {
	machine
	config  string // path of the config file
	runtime string // of the environment; empty when not given
	env     []string
	foreign bool // another engine than Concourse's calls, see calledByConcourse
}

// Main runs the wrapper with os.Args and os.Environ. It returns an exit status
// only when the real runc was not reached; otherwise this process becomes runc.
func Main(args, env []string, stdout, stderr io.Writer) int {
	w := newWrapper(realMachine(), args, env)
	return w.run(args, stdout, stderr)
}

func newWrapper(m machine, args, env []string) wrapper {
	return wrapper{machine: m, config: cmp.Or(getenv(env, EnvConfig), DefaultConfig), runtime: getenv(env, EnvRuntime), env: env,
		foreign: !calledByConcourse(args)}
}

// getenv returns the first of a name, as getenv(3) does.
func getenv(env []string, name string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

func (w *wrapper) run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 1 { // neither is a command of runc
		switch {
		case len(args) == 2 && args[1] == infoCommand:
			w.info(stdout)
			return 0
		case len(args) == 3 && args[1] == deadmount.Command:
			return deadmount.Answer(args[2])
		}
	}
	if len(args) == 0 {
		args = []string{"runc"}
	}
	c, err := cmdline.Parse(args[1:])
	if err == nil {
		err = w.forward(&c, args)
	}
	refuse(stderr, &c, w.now(), err)
	return 1
}

// forward does what the call needs and becomes runc; it returns on failure only.
func (w *wrapper) forward(c *cmdline.Call, args []string) error {
	w.foreign = w.foreign || !ofConcourse(c)
	s := &settings{Config: Config{Runtime: w.runtime}}
	var err error
	// A start says nothing of Concourse's tasks.
	if c.Command != "" && (c.Command != "start" || w.foreign) {
		s, err = w.readConfig()
	} else if s.Runtime == "" {
		s.Runtime, err = w.readRuntime()
	}
	if err != nil {
		return err
	}
	if err := w.checkRuntime(s.Runtime); err != nil {
		return err
	}
	rollback := func() {}
	switch c.Command {
	case "create", "run":
		rollback, err = w.create(s, c)
	case "exec", "start":
		args, err = w.exec(s, c, args)
	}
	if err != nil {
		return err
	}
	argv := append([]string{s.Runtime}, args[1:]...)
	err = w.machine.exec(s.Runtime, argv, w.env)
	rollback()
	return fmt.Errorf("cannot run the real runc %s: %w", s.Runtime, err)
}

func (w *wrapper) readRuntime() (string, error) {
	data, err := w.readTrusted(w.config)
	if w.absent(err) {
		return w.findRuntime()
	}
	if err == nil {
		var path string
		if path, err = decodeRuntime(data); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("cannot find the real runc: cannot read %s: %w (%s can name it, too)", w.config, err, EnvRuntime)
}

func (w *wrapper) readConfig() (*settings, error) {
	data, err := w.readTrusted(w.config)
	if w.absent(err) {
		return w.engineConfig()
	}
	if w.foreign && errors.Is(err, unix.EACCES) {
		return nil, fmt.Errorf("cannot read %s, which is root's alone: %w; an engine without root gets no GPU by this runtime here", w.config, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", w.config, err)
	}
	s, err := decodeConfig(data)
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", w.config, err)
	}
	s.Runtime = cmp.Or(w.runtime, s.Runtime)
	w.engine = w.foreign && s.Containers == Asked
	return s, nil
}

// checkRuntime keeps the wrapper from calling itself for ever.
func (w *wrapper) checkRuntime(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("cannot find the real runc: %q is not an absolute path; set runtime in %s, or %s", path, w.config, EnvRuntime)
	}
	var real, self unix.Stat_t
	if err := unix.Stat(path, &real); err != nil {
		return fmt.Errorf("cannot find the real runc %s: %w", path, err)
	}
	if err := unix.Stat(w.self, &self); err != nil {
		return fmt.Errorf("cannot inspect this program: %w", err)
	}
	if real.Dev == self.Dev && real.Ino == self.Ino {
		return fmt.Errorf("cannot use %s as the real runc: it is this wrapper itself; set runtime in %s to the runc of Concourse's release", path, w.config)
	}
	return nil
}
