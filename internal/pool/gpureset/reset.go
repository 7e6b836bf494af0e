package gpureset

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// holder is the name of the lease that keeps containers and pods from the GPUs meanwhile.
const holder = "gpu-reset"

// debugDRI has a folder for each card, by its minor number. A read of recoverFile makes the
// driver reset the card and, in a hive, all of its cards. It is the only interface that
// amdgpu documents for this (Documentation/gpu/amdgpu/debugfs.rst). The file reset of the PCI
// device resets the card without its driver.
const (
	debugDRI    = "/sys/kernel/debug/dri"
	recoverFile = "amdgpu_gpu_recover"
)

// Machine is a machine with GPUs.
type Machine struct {
	Host   host.Host
	LXD    bool
	Leases *lease.Leases // nil if GPUs are not leased

	step  func(next string)       // called before each change; may never return
	reset func(file string) error // called before the read of recoverFile
}

// Look reads the world.
func (m Machine) Look() (w World, err error) {
	w = World{LXD: m.LXD, At: m.Host.Now().UTC()}
	if w.LXD {
		return w, nil
	}
	if w.Record, err = quarantine.RecordFile.Read(m.Host.Root); err != nil {
		return w, err
	}
	if w.Past, err = readHistory(m.Host.Root); err != nil {
		return w, err
	}
	inv, err := gpu.Discover(m.Host.Root)
	if err != nil {
		return w, err
	}
	w.GPUs = inv.GPUs
	w.Links, w.HiveUnknown = gpu.ReadHives(m.Host.Root, w.GPUs)
	if m.Leases != nil {
		if w.Leases, _, err = m.Leases.Read(); err != nil {
			return w, err
		}
	}
	if w.Plan() == "" { // whatever is open, and a look reads each thread of the machine
		return w, nil
	}
	open, err := openBy(m.Host.Root, w.GPUs)
	if w.Open = open; err != nil {
		w.OpenUnknown = err.Error()
	}
	return w, nil
}

// readHistory names the fix of a damaged file, without which resets could not be counted.
func readHistory(r host.Root) (History, error) {
	h, err := ReadHistory(r)
	if errors.Is(err, statefile.ErrDamaged) {
		return h, fmt.Errorf("%w; remove the file if no GPU was reset today", err)
	}
	return h, err
}

// Reset resets a GPU, if it still may, and records the result. One process does so at a
// time. It is killed without harm at any point: the lease ends with it, and the record has
// the attempt before the driver is asked.
func (m Machine) Reset(name string) (Attempt, error) {
	fail := func(err error) (Attempt, error) {
		return Attempt{}, fmt.Errorf("cannot reset GPU %s: %w", name, err)
	}
	unlock, err := m.Host.TryLock(lockFile)
	if err != nil {
		return fail(err)
	}
	defer unlock()
	w, err := m.Look()
	if err != nil {
		return fail(err)
	}
	w.Past = w.Past.settle(w.At)
	group, err := w.Check(name)
	if err != nil {
		return fail(err)
	}
	file, err := m.recoverFile(w.GPUs, name)
	if err != nil {
		return fail(err)
	}
	m.before("lease")
	if err := m.lease(group); err != nil {
		return fail(err)
	}
	defer func() { _ = m.Leases.Cancel(holder) }() // otherwise it ends with this process
	a := Attempt{Name: name, Group: group, Began: w.At, Result: Begun}
	if err := m.record(&w.Past, a); err != nil {
		return fail(err)
	}
	a.Result, a.Reason = m.ask(file, w, group)
	a.Ended = m.Host.Now().UTC()
	if err := m.record(&w.Past, a); err != nil {
		return a, fmt.Errorf("cannot record the reset of GPU %s: %w", name, err)
	}
	return a, nil
}

// ask looks once more who has the GPUs open, and asks the driver.
func (m Machine) ask(file string, w World, group []string) (Result, string) {
	m.before("look")
	open, err := openBy(m.Host.Root, w.GPUs)
	if err != nil {
		return Stopped, err.Error()
	}
	for _, member := range group {
		if pids := open[member]; len(pids) > 0 {
			return Stopped, fmt.Sprintf("process %d has opened GPU %s", pids[0], member)
		}
	}
	m.before("reset")
	if m.reset != nil {
		if err := m.reset(m.Host.Path(file)); err != nil {
			return Failed, err.Error()
		}
	}
	text, err := m.Host.ReadText(file)
	if err != nil {
		return Failed, err.Error()
	}
	// The read succeeds even if the reset failed: the text is the driver's error (gpu_recover_get
	// in amdgpu_fence.c). Older drivers write words.
	if n, err := strconv.Atoi(text[strings.LastIndexByte(text, ' ')+1:]); err == nil && n != 0 {
		return Failed, fmt.Sprintf("the driver failed with %d", n)
	}
	return Done, ""
}

func (m Machine) record(h *History, a Attempt) error {
	m.before("record " + string(a.Result))
	*h = h.with(a)
	return historyFile.Write(m.Host.Root, *h)
}

// lease leases all GPUs of the group to this process, although they are quarantined.
func (m Machine) lease(group []string) error {
	want := lease.Want{Count: len(group)}
	for _, name := range group {
		want.Of = append(want.Of, slices.Index(m.Leases.GPUs, name))
	}
	call := lease.Call{Container: holder, Bundle: "/", PidFile: filepath.Join(m.Leases.Dir, "no-pid"), Cgroup: holder,
		OwnProcess: true, PID: os.Getpid()}
	_, err := m.Leases.Take(call, want)
	return err
}

// recoverFile returns the file of the card, after it has checked that the folder is the
// card's: minor numbers change with the order of drivers.
func (m Machine) recoverFile(gpus []gpu.GPU, name string) (string, error) {
	for _, g := range gpus {
		if g.Address() != name {
			continue
		}
		if g.Driver != "amdgpu" {
			return "", fmt.Errorf("its driver is %s", g.Driver)
		}
		for _, n := range []*host.Node{g.Card, &g.Render} {
			if n == nil {
				continue
			}
			dir := path.Join(debugDRI, strconv.Itoa(int(n.Minor)))
			owner, err := m.Host.ReadText(dir + "/name") // amdgpu dev=0000:03:00.0 unique=0000:03:00.0
			if err == nil && slices.Contains(strings.Fields(owner), "dev="+g.PCI) && m.Host.Exists(dir+"/"+recoverFile) {
				return dir + "/" + recoverFile, nil
			}
		}
	}
	return "", fmt.Errorf("the kernel has no %s for it in %s (is debugfs mounted?)", recoverFile, debugDRI)
}

// before calls step, so that a test can end the process here.
func (m Machine) before(what string) {
	if m.step != nil {
		m.step(what)
	}
}
