// Package oci implements runc-amd-wrapper, which runs in front of runc and adds the unit's
// GPUs, folders and certificates to the containers of Concourse tasks. At create and run it
// applies CDI specs and the unit's configuration, under its own device policy. At exec it
// adds groups and environment if they are needed. If GPUs are exclusive, it leases them
// first (internal/pool/lease). All other calls become the real runc at once.
//
// It never starts a task without the GPUs that its unit guarantees, but refuses it with a
// reason. It never changes a node of the host, logs nothing on success, and needs only the
// standard library, golang.org/x/sys and a parser of mountinfo.
package oci

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/base/version"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/deadmount"
)

// wrapper holds one call: the caller's environment and the machine.
type wrapper struct {
	machine
	config  string // path of the config file
	runtime string // from the environment; may be empty
	env     []string
}

// Main runs the wrapper with os.Args and os.Environ. It returns an exit status only if the
// real runc was not reached. Otherwise this process becomes runc.
func Main(args, env []string, stdout, stderr io.Writer) int {
	w := newWrapper(realMachine(), args, env)
	return w.run(args, stdout, stderr)
}

func newWrapper(m machine, args, env []string) wrapper {
	m.foreign = !calledByConcourse(args)
	return wrapper{machine: m, config: cmp.Or(getenv(env, EnvConfig), DefaultConfig),
		runtime: getenv(env, EnvRuntime), env: env}
}

// getenv returns the first value of a name, as getenv(3) does.
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
			return deadmount.AnswerProbe(args[2])
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

// forward does the work of the call and becomes runc. It returns on failure only.
func (w *wrapper) forward(c *cmdline.Call, args []string) error {
	w.foreign = w.foreign || !ofConcourse(c)
	// A start of Concourse's needs nothing from the config but the runtime.
	if c.Command == "" || c.Command == "start" && !w.foreign {
		runtime, err := w.readRuntime()
		if err == nil {
			err = w.checkRuntime(runtime)
		}
		if err != nil {
			return err
		}
		return w.become(runtime, args)
	}
	s, err := w.readConfig()
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
	err = w.become(s.Runtime, args)
	rollback()
	return err
}

// become makes this process the real runc. It returns on failure only.
func (w *wrapper) become(runtime string, args []string) error {
	argv := append([]string{runtime}, args[1:]...)
	return fmt.Errorf("cannot run the real runc %s: %w", runtime, w.machine.exec(runtime, argv, w.env))
}

func (w *wrapper) readRuntime() (string, error) {
	if w.runtime != "" {
		return w.runtime, nil
	}
	data, err := w.readTrusted(w.config)
	if w.missingConfig(err) {
		return w.findRuntime()
	}
	if err == nil {
		var path string
		if path, err = decodeRuntime(data); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("cannot find the real runc: cannot read %s: %w (%s can name it, too)", w.config, err,
		EnvRuntime)
}

func (w *wrapper) readConfig() (*settings, error) {
	data, err := w.readTrusted(w.config)
	if w.missingConfig(err) {
		return w.engineConfig()
	}
	if w.foreign && errors.Is(err, unix.EACCES) {
		return nil, fmt.Errorf("cannot read %s, which only root can read: %w; a rootless engine gets no GPU from "+
			"this runtime", w.config, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", w.config, err)
	}
	s, err := decodeConfig(data)
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", w.config, err)
	}
	s.Runtime = cmp.Or(w.runtime, s.Runtime)
	w.engine = w.foreign && s.Containers == Requested
	return s, nil
}

// checkRuntime keeps the wrapper from calling itself forever.
func (w *wrapper) checkRuntime(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("cannot find the real runc: %q is not an absolute path; set runtime in %s, or %s",
			path, w.config, EnvRuntime)
	}
	var real, self unix.Stat_t
	if err := unix.Stat(path, &real); err != nil {
		return fmt.Errorf("cannot find the real runc %s: %w", path, err)
	}
	if err := unix.Stat(w.self, &self); err != nil {
		return fmt.Errorf("cannot inspect this program: %w", err)
	}
	if real.Dev == self.Dev && real.Ino == self.Ino {
		return fmt.Errorf("cannot use %s as the real runc: it is this wrapper itself; set runtime in %s to the "+
			"runc of Concourse's release", path, w.config)
	}
	return nil
}

// machine holds the system calls that tests replace, because they need root, cannot be
// undone or must not reach a dead file system.
type machine struct {
	lstat func(path string, st *unix.Stat_t) error
	// Calls that are used for an engine without root.
	access   func(path string, mode uint32) error
	getxattr func(path, name string, dest []byte) (int, error)
	uidMap   func() ([]byte, error)
	foreign  bool // an engine other than Concourse's calls, see calledByConcourse
	engine   bool // foreign, and set up for engines rather than for Concourse

	mknod  func(path string, mode uint32, dev int) error
	exec   func(path string, argv, env []string) error
	statfs func(path string, st *unix.Statfs_t) error

	statx func(dirfd int, path string, flags, mask int, st *unix.Statx_t) error
	probe func(path string, limit time.Duration) string
	now   func() time.Time
	sleep func(time.Duration)
	euid  uint32
	self  string // this program, for the loop guard
}

func realMachine() machine {
	return machine{
		lstat:    unix.Lstat,
		statfs:   unix.Statfs,
		access:   unix.Access,
		getxattr: unix.Lgetxattr,
		uidMap:   func() ([]byte, error) { return os.ReadFile("/proc/self/uid_map") },
		mknod:    unix.Mknod,
		exec:     syscall.Exec,
		statx:    unix.Statx,
		probe:    deadmount.Probe,
		now:      time.Now,
		sleep:    time.Sleep,
		euid:     uint32(os.Geteuid()),
		self:     "/proc/self/exe",
	}
}

// infoCommand prints the wrapper's settings, for people who look for the cause of a
// problem.
const infoCommand = "wrapper-info"

func (w *wrapper) info(out io.Writer) {
	fmt.Fprintf(out, "runc-amd-wrapper %s\nconfig %s\n", version.Version(), w.config)
	c, err := w.readConfig()
	if err != nil {
		fmt.Fprintf(out, "problem %v\n", err)
		return
	}
	fmt.Fprintf(out, "runtime %s\n", c.Runtime)
	for _, g := range c.GPUs {
		fmt.Fprintf(out, "device %s for %s\n", g.CDI, c.Containers)
	}
	if c.Leases != nil {
		fmt.Fprintf(out, "leases in %s\n", c.Leases.Dir)
	}
	if c.Folders == nil {
		return
	}
	mounts, skipped, err := w.folderMounts(*c.Folders)
	if err != nil {
		fmt.Fprintf(out, "problem %v\n", err)
	}
	for _, m := range mounts {
		fmt.Fprintf(out, "folder %s %s for %s\n", m.Source, m.Options[1], c.Folders.Containers)
	}
	for _, why := range skipped {
		fmt.Fprintf(out, "left out %s\n", why)
	}
}

// refuse reports why a call fails: on stderr, and as an error line in runc's form in the
// file of this call's --log. containerd reads that file after a failed create, and so the
// text reaches the build's output. stderr alone is lost there.
func refuse(stderr io.Writer, c *cmdline.Call, now time.Time, reason error) {
	text := "runc-amd-wrapper: " + oneLine(reason.Error())
	fmt.Fprintln(stderr, text)
	if c.Log == "" {
		return
	}
	f, err := os.OpenFile(c.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		fmt.Fprintf(stderr, "runc-amd-wrapper: cannot write the log: %v\n", err)
		return
	}
	defer f.Close()
	if _, err := f.Write(logLine(c.LogFormat, text, now)); err != nil {
		fmt.Fprintf(stderr, "runc-amd-wrapper: cannot write the log: %v\n", err)
	}
}

// oneLine escapes control characters as Go does between quotes. They come from outside
// names, and the text must be one line in a log and on a terminal.
func oneLine(text string) string {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func logLine(format, text string, now time.Time) []byte {
	stamp := now.Format(time.RFC3339)
	if format == "json" {
		line := rawjson.AppendString([]byte(`{"level":"error","msg":`), text)
		line = rawjson.AppendString(append(line, `,"time":`...), stamp)
		return append(line, "}\n"...)
	}
	return fmt.Appendf(nil, "time=%q level=error msg=%s\n", stamp, strconv.Quote(text))
}
