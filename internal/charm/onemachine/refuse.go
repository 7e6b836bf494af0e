package onemachine

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// minFree is the free disk space that a new machine needs: the release has 2 GiB, small images
// of tasks need the rest. gpuFree is enough for an image of ROCm, which has 10 to 20 GB.
const (
	minFree = 10 << 30
	gpuFree = 50 << 30
)

// refuse returns the reason why this machine cannot be set up, before anything changes.
func (m *Machine) refuse(ctx context.Context) error {
	h := m.Model.Host
	if err := m.refuseNoSystemd(); err != nil {
		return err
	}
	for _, unit := range []string{concourse.WebUnitFile, concourse.UnitFile} {
		if h.Exists(unit) {
			return fmt.Errorf("cannot set up this machine: %s belongs to another Concourse; to take over its builds, "+
				"remove its services, and set %s (and encryption-key) to its database in %s before you run up again",
				unit, databaseOption, OptionsFile)
		}
	}
	if pid := runningConcourse(h.Path("/proc")); pid != 0 {
		return fmt.Errorf("cannot set up this machine: another Concourse runs here (process %d); stop it first", pid)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(h.Path("/var"), &st); err == nil {
		switch free := st.Bavail * uint64(st.Bsize); {
		case free < minFree:
			return fmt.Errorf("cannot set up this machine: /var has %d GiB free, and %d GiB are needed; free some space",
				free>>30, minFree>>30)
		case free < gpuFree && h.Exists("/dev/kfd"):
			m.Model.Progress.Note(fmt.Sprintf("/var has %d GiB free; tasks with images of ROCm (10 to 20 GB) "+
				"need %d GiB", free>>30, gpuFree>>30))
		}
	}
	return ctx.Err()
}

// findRelease returns an error unless the release that the operator named is a compressed
// file. Its path is made absolute, because the timer runs in another folder.
func (m *Model) findRelease() (err error) {
	if m.Release == "" {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot use --release=%s: %w; give the file concourse-<version>-linux-<arch>.tgz", m.Release,
				err)
		}
	}()
	f, err := os.Open(m.Release)
	if err != nil {
		return errors.Unwrap(err) // without the name
	}
	defer f.Close()
	if _, err := gzip.NewReader(f); err != nil {
		return errors.New("it is not a compressed file")
	}
	m.Release, err = filepath.Abs(m.Release)
	return err
}

func (m *Machine) refuseNoSystemd() error {
	if !m.Model.Host.Exists("/run/systemd/system") {
		return errors.New("cannot set up this machine: systemd does not run here; use a machine, a VM or an LXD " +
			"container with systemd")
	}
	return nil
}

// refuseJuju returns an error on a machine of Juju, which Juju configures.
func (m *Machine) refuseJuju() error {
	units, err := m.Model.Host.Glob("/var/lib/juju/agents/unit-*")
	if err != nil || len(units) == 0 {
		return err
	}
	return fmt.Errorf("Juju manages this machine (%s); use juju config and juju run, or another machine",
		strings.TrimPrefix(path.Base(units[0]), "unit-"))
}

// runningConcourse returns the id of a process of Concourse, or 0.
func runningConcourse(proc string) int {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return 0
	}
	all, err := fs.AllProcs()
	if err != nil {
		return 0
	}
	for _, p := range all {
		args, err := p.CmdLine()
		if err == nil && len(args) > 1 && path.Base(args[0]) == "concourse" &&
			slices.Contains([]string{"web", "worker", "quickstart"}, args[1]) {
			return p.PID
		}
	}
	return 0
}

// checkPorts returns an error if another program uses a port that the CI needs.
func (m *Machine) checkPorts() error {
	cfg, problems := config.Parse(m.Model.options, nil)
	if len(problems) > 0 {
		return &OptionsError{[]string{problems[0].String()}}
	}
	needed := map[int]string{7777: "the worker", 8888: "the worker", 9401: "the GPU exporter"}
	if cfg.Mode != config.ModeWorker {
		needed[cfg.Web.Port], needed[wellknown.TSAPort] = "the web", "the web"
		if cfg.Web.EnableMetrics {
			needed[wellknown.JobsPort] = "the exporter of jobs"
		}
	}
	used, err := listeners(m.Model.Host.Path("/proc"))
	if err != nil {
		return fmt.Errorf("cannot check the ports of this machine: %w", err)
	}
	var bad []string
	for port, what := range needed {
		by, taken := used[port]
		if !taken {
			continue
		}
		text := fmt.Sprintf("port %d, which %s needs, is used by %s; stop that program", port, what, by)
		if port == cfg.Web.Port {
			text += fmt.Sprintf(", or write another web-port to %s", OptionsFile)
		}
		bad = append(bad, text)
	}
	if len(bad) == 0 {
		return nil
	}
	slices.Sort(bad)
	return fmt.Errorf("cannot set up this machine:\n  %s", strings.Join(bad, "\n  "))
}

// listeners returns the listening TCP ports, with the program and its process id.
func listeners(proc string) (map[int]string, error) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return nil, err
	}
	inodes := map[string]int{}
	for _, name := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(path.Join(proc, "net", name))
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
			return nil, err
		}
		addListening(inodes, string(text))
	}
	ports := map[int]string{}
	for _, port := range inodes {
		ports[port] = "a program of another user"
	}
	all, err := fs.AllProcs()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		targets, err := p.FileDescriptorTargets()
		if err != nil {
			continue // it ended, or belongs to another user
		}
		for _, t := range targets {
			if port, ok := inodes[t]; ok {
				name, _ := p.Comm() // without a name the id identifies the process
				ports[port] = fmt.Sprintf("%s (process %d)", name, p.PID)
			}
		}
	}
	return ports, nil
}

// addListening adds the ports of the listening sockets in a file such as /proc/net/tcp, by
// the name of the socket. The columns are those of proc_net_tcp.txt in the kernel.
func addListening(inodes map[string]int, text string) {
	const listen, address, state, inode = "0A", 1, 3, 9 // TCP_LISTEN, and columns
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) <= inode || f[state] != listen {
			continue
		}
		_, port, _ := strings.Cut(f[address], ":")
		if n, err := strconv.ParseUint(port, 16, 16); err == nil {
			inodes["socket:["+f[inode]+"]"] = int(n)
		}
	}
}
