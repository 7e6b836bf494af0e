package worker

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
)

// step is one change of the machine. undo reverts it if a later step fails, and is nil if the
// step may stay.
type step struct {
	op   string
	do   func() error
	undo *step
}

// apply runs the steps in order. After a failure it reverts the finished steps.
func apply(steps []step, out io.Writer) error {
	for i, s := range steps {
		fmt.Fprintln(out, "  "+s.op)
		err := s.do()
		if err == nil {
			continue
		}
		err = fmt.Errorf("cannot %s: %w", s.op, err)
		for j := i - 1; j >= 0; j-- {
			undo := steps[j].undo
			if undo == nil {
				continue
			}
			fmt.Fprintln(out, "  "+undo.op)
			if failed := undo.do(); failed != nil {
				err = errors.Join(err, fmt.Errorf("cannot %s: %w", undo.op, failed))
			}
		}
		return err
	}
	return nil
}

// installation holds the input of the command install.
type installation struct {
	m         Machine
	p         paths
	settings  Settings
	concourse string // file of concourse.exe, or the release's zip
	first     bool   // no service is installed yet
	running   bool   // the installed service runs
	noStart   bool
	offline   bool
}

// steps returns the changes of an installation. A second one with the same input keeps the
// key and the work folder.
func (i installation) steps() []step {
	m, p, account := i.m, i.p, i.settings.Account
	folder := func(path string, a Access) step {
		_, err := os.Lstat(path)
		s := step{op: "make folder " + path, do: func() error { return m.MakeFolder(path, a, account) }}
		if errors.Is(err, fs.ErrNotExist) {
			s.undo = i.ifFirst("remove "+path, func() error { return removeAll(path) })
		}
		return s
	}
	write := func(path string, data []byte, a Access) step {
		return step{op: "write " + path, do: func() error {
			return m.WriteFile(path, bytes.NewReader(data), a, account)
		}}
	}
	var steps []step
	if !i.first {
		forget := func() error { return removeAll(p.known()) }
		steps = append(steps, i.stop(), step{op: "forget missing GPUs", do: forget})
	}
	settings, err := json.MarshalIndent(i.settings, "", "  ")
	steps = append(steps, folder(p.programs, ServiceReads),
		step{op: "copy this program to " + p.program(), do: func() error { return i.copySelf() }},
		step{op: "copy " + i.concourse + " to " + p.concourse(), do: func() error { return i.copyConcourse() }},
		folder(p.data, ServiceReads), folder(p.keys(), ServiceReads), folder(p.logs(), ServiceWrites),
		folder(i.settings.WorkDir, ServiceWrites),
		step{op: "make key " + p.key() + " (if it is missing)", do: i.makeKey},
		write(p.hostKey(), []byte(i.settings.TSAPublicKey+"\n"), ServiceReads),
		step{op: "write " + p.settings(), do: func() error {
			if err != nil {
				return err
			}
			return m.WriteFile(p.settings(), bytes.NewReader(settings), ServiceReads, account)
		}},
		step{op: "install service " + ServiceName + " for " + account + ", automatic start, restart after failures",
			do: func() error {
				return m.SetService(ServiceSpec{Path: p.program(), Account: account, Args: []string{runCommand}})
			}, undo: i.ifFirst("remove service "+ServiceName, m.RemoveService)},
	)
	if account != LocalSystem {
		steps = append(steps, step{op: "give " + account + " the right to make symbolic links",
			do: func() error {
				if err := m.SetLinkRight(account, true); err != nil {
					return fmt.Errorf("%w; tasks need symbolic links. Turn on the developer mode of Windows, or use "+
						"--account %s", err, LocalSystem)
				}
				return nil
			}, undo: i.ifFirst("take from "+account+" the right to make symbolic links",
				func() error { return m.SetLinkRight(account, false) })})
	}
	if !i.noStart {
		steps = append(steps, step{op: "start service " + ServiceName, do: m.StartService})
	}
	return steps
}

// stop returns the step that stops the service of an earlier installation. The service starts
// again if a later step fails.
func (i installation) stop() step {
	s := step{op: "stop service " + ServiceName, do: func() error { return i.m.StopService(stopLimit) }}
	if i.running {
		s.undo = &step{op: "start service " + ServiceName + " again", do: i.m.StartService}
	}
	return s
}

// ifFirst returns a step that reverts a change of a first installation, otherwise nil.
func (i installation) ifFirst(op string, do func() error) *step {
	if !i.first {
		return nil
	}
	return &step{op, do, nil}
}

// copySelf copies the running program, unless it is the installed one.
func (i installation) copySelf() error {
	self, err := i.m.SelfPath()
	if err != nil || strings.EqualFold(self, i.p.program()) {
		return err
	}
	f, err := os.Open(self)
	if err != nil {
		return err
	}
	defer f.Close()
	return i.m.WriteFile(i.p.program(), f, ServiceReads, i.settings.Account)
}

// copyConcourse copies concourse.exe, also from the zip of a release.
func (i installation) copyConcourse() error {
	if strings.EqualFold(i.concourse, i.p.concourse()) {
		return nil
	}
	if !strings.EqualFold(filepath.Ext(i.concourse), ".zip") {
		f, err := os.Open(i.concourse)
		if err != nil {
			return err
		}
		defer f.Close()
		return i.m.WriteFile(i.p.concourse(), f, ServiceReads, i.settings.Account)
	}
	z, err := zip.OpenReader(i.concourse)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, f := range z.File {
		if strings.TrimPrefix(f.Name, "concourse/") != "bin/concourse.exe" {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		defer r.Close()
		return i.m.WriteFile(i.p.concourse(), r, ServiceReads, i.settings.Account)
	}
	return errors.New("it has no concourse/bin/concourse.exe; use concourse-<version>-windows-amd64.zip")
}

// makeKey makes the worker's key pair, or derives the public half of an existing key. It
// refuses a key of another user, who could use it.
func (i installation) makeKey() error {
	private, err := readOwn(i.m, i.p.key())
	if errors.Is(err, fs.ErrNotExist) {
		if private, err = beacon.NewKey(beacon.WorkerKeyBits); err == nil {
			err = i.m.WriteFile(i.p.key(), bytes.NewReader(private), ServiceReads, i.settings.Account)
		}
	}
	if err != nil {
		return err
	}
	line, problem := beacon.PublicLine(private)
	if problem != "" {
		return fmt.Errorf("%s: %s; remove it, and a new key is made", i.p.key(), problem)
	}
	return i.m.WriteFile(i.p.key()+".pub", strings.NewReader(line+" "+i.settings.Name+"\n"), ServiceReads,
		i.settings.Account)
}

// stopLimit bounds how long the service may take to stop.
const stopLimit = time.Minute

// removal holds the input of the command uninstall.
type removal struct {
	m        Machine
	p        paths
	settings Settings // without a name if they could not be read
	drain    time.Duration
	keepKey  bool
	keepWork bool
	warn     func(format string, args ...any)
}

// steps returns the changes that revert an installation.
func (r removal) steps(installed, running bool) []step {
	m, p := r.m, r.p
	remove := func(path string) step {
		return step{op: "remove " + path, do: func() error { return removeAll(path) }}
	}
	var steps []step
	if running && r.settings.Name != "" {
		steps = append(steps, step{op: "retire worker " + r.settings.Name + " and wait for its builds", do: r.retire})
	}
	if installed {
		steps = append(steps,
			step{op: "stop service " + ServiceName, do: func() error { return m.StopService(stopLimit) }},
			step{op: "remove service " + ServiceName, do: m.RemoveService})
	}
	if a := r.settings.Account; a != "" && a != LocalSystem {
		steps = append(steps, step{op: "take from " + a + " the right to make symbolic links",
			do: func() error { return m.SetLinkRight(a, false) }})
	}
	if r.settings.WorkDir != "" && !r.keepWork {
		steps = append(steps, remove(r.settings.WorkDir))
	}
	if r.keepKey {
		steps = append(steps, remove(p.logs()), remove(p.settings()))
	} else {
		steps = append(steps, remove(p.data))
	}
	return append(steps, remove(p.programs))
}

// retire removes the worker from the web. The worker then finishes its builds and exits, and
// the service stops. A web that does not answer is only a warning.
func (r removal) retire() error {
	s := r.settings
	out, err := r.m.Output(Command{Path: r.p.concourse(), Args: []string{"retire-worker", "--name", s.Name,
		"--tsa-host", s.TSAHost, "--tsa-public-key", r.p.hostKey(), "--tsa-worker-private-key", r.p.key()}})
	if err != nil {
		r.warn("cannot retire the worker: %v: %s; run on the web: juju run web/leader prune-worker worker=%s", err,
			lastLine(out), s.Name)
		return nil
	}
	for deadline := time.Now().Add(r.drain); time.Now().Before(deadline); time.Sleep(time.Second) {
		if service, err := r.m.Service(); err != nil || !service.Running {
			return err
		}
	}
	r.warn("builds still run after %v and are ended", r.drain)
	return nil
}
