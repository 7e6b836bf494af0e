// Package nvidiagpu reads one NVIDIA GPU into a reading.State without NVIDIA's library:
// from the PCI core's files in sysfs, /proc/driver/nvidia, nouveau's sensors, and the last
// answer of nvidia-smi, which another process of root writes (Watcher). A value without a
// source is unknown.
//
// A reading never starts a program, opens no node and does not wake a suspended GPU.
package nvidiagpu

import (
	"bytes"
	"cmp"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// Reader reads one device repeatedly, with one reading at a time. It keeps no file open,
// because the files are few, and the PCI core answers nearly all of them from memory.
type Reader struct {
	root    host.Root
	device  gpu.Slot
	report  func() *Report // last report of nvidia-smi, or nil
	now     func() time.Time
	at      atomic.Pointer[string] // the file being read
	refresh atomic.Bool            // identify the GPU again
	hangs   reading.HangLog

	mu         sync.Mutex // of a reading, and of all below
	id         amdgpu.Identity
	identified time.Time // time of the last identification
	counted    time.Time // report with the last counted failure
	failures   []amdgpu.Failure
}

// NewReader returns a reader of the device below root.
func NewReader(root host.Root, d gpu.Slot, report func() *Report, now func() time.Time) *Reader {
	return &Reader{root: root, device: d, report: report, now: now}
}

// Device returns the device that is read.
func (r *Reader) Device() gpu.Slot { return r.device }

// At returns the name of the file that is or was last read.
func (r *Reader) At() string {
	if p := r.at.Load(); p != nil {
		return *p
	}
	return ""
}

// Missed records that a reading did not return in time, and returns the GPU's hangs.
func (r *Reader) Missed(now time.Time) reading.Hangs {
	r.hangs.Missed(now)
	return r.hangs.Now(now)
}

// Reopen makes the next reading identify the GPU again.
func (r *Reader) Reopen() { r.refresh.Store(true) }

// Close does nothing, because no file is open between two readings.
func (r *Reader) Close() {}

// Poll does nothing, because each reading reads all values.
func (r *Reader) Poll() []amdgpu.Failure { return nil }

// ReadPartition reads the device, because MIG's instances are not separate devices.
func (r *Reader) ReadPartition() reading.State { return r.Read(reading.Seen{}) }

// Read reads the device.
func (r *Reader) Read(seen reading.Seen) reading.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = nil
	s := reading.State{State: amdgpu.State{RuntimePower: r.text("power/runtime_status")}}
	told, stuck := r.answer()
	r.identify(told)
	s.Identity = r.id
	lost := !s.Suspended() && r.lost()
	s.Alive = !lost && r.text("vendor") != "" // exists as long as the device
	if s.Alive && !s.Suspended() {
		r.readLink(&s)
		r.readSensors(&s)
	}
	told.fill(&s)
	addLogged(&s, seen.Errors)
	now := r.now()
	var signals []string
	for _, of := range []struct {
		signal string
		stands bool
	}{
		{reading.SignalTimeout, stuck},
		{reading.SignalKernel, reading.Recent(now, seen.Logged)},
		{reading.SignalLost, lost || told.is(lostState) || reading.Recent(now, seen.Lost)},
		{reading.SignalNeedsReset, told.is(needsReset)},
	} {
		if of.stands {
			signals = append(signals, of.signal)
		}
	}
	r.hangs.Record(now, signals)
	s.Hangs, s.Failures = r.hangs.Now(now), r.failures
	return s
}

// answer returns nvidia-smi's answer for this GPU, or nil. stuck means that nvidia-smi
// hangs in the kernel, which affects all GPUs of the driver.
func (r *Reader) answer() (t *Answer, stuck bool) {
	report := r.report()
	if !report.fresh(r.now()) {
		return nil, false
	}
	if report.Failure != "" && !report.At.Equal(r.counted) {
		r.counted = report.At
		r.failures = append(r.failures, amdgpu.Failure{File: Program, Errno: report.Failure})
	}
	return report.find(r.device.PCI), report.Stuck
}

// lost reports whether the device does not answer on PCIe: its registers then read as all
// ones. The first four bytes are its ids, which every user may read.
func (r *Reader) lost() bool {
	var ids [4]byte
	name := "config"
	r.at.Store(&name)
	n, err := sysfile.ReadInto(r.root.Path(path.Join(r.device.Sysfs, name)), ids[:])
	return err == nil && n == len(ids) && bytes.Equal(ids[:], []byte{0xff, 0xff, 0xff, 0xff})
}

// identify reads the GPU's identity once a minute. Until a program has opened the GPU, its
// driver has neither id nor video BIOS. Known values are kept.
func (r *Reader) identify(told *Answer) {
	now := r.now()
	if !r.refresh.Swap(false) && !r.identified.IsZero() && now.Sub(r.identified) < reading.LookEvery {
		return
	}
	r.identified = now
	file := path.Join(procGPUs, r.device.PCI, "information")
	name := path.Base(file)
	r.at.Store(&name)
	text, err := sysfile.ReadOnce(r.root.Path(file))
	if err != nil && !sysfile.Absent(err) {
		r.fail(name, sysfile.ErrnoName(err))
	}
	info := parseInformation(sysfile.Clean(text))
	if info.uuid == "" && told != nil {
		info.uuid = told.UUID
	}
	before := r.id
	r.id = amdgpu.Identity{UUID: cmp.Or(info.uuid, before.UUID, reading.AMD(r.device).UUID("")),
		VBIOS: cmp.Or(info.vbios, before.VBIOS),
		Model: cmp.Or(info.model, before.Model), NUMANode: r.text("numa_node")}
	if r.id.NUMANode == "-1" {
		r.id.NUMANode = ""
	}
}

func (r *Reader) fail(file, errno string) {
	r.failures = append(r.failures, amdgpu.Failure{File: file, Errno: errno})
}

// text reads one of the device's files; "" without a value.
func (r *Reader) text(name string) string {
	base := path.Base(name)
	r.at.Store(&base)
	b, err := sysfile.ReadOnce(r.root.Path(path.Join(r.device.Sysfs, name)))
	if err != nil {
		if !sysfile.Absent(err) {
			r.fail(base, sysfile.ErrnoName(err))
		}
		return ""
	}
	return sysfile.Clean(b)
}

// number reads one of the device's files; unknown unless it is within 1 to max.
func (r *Reader) number(name string, max, times float64) amdgpu.Number {
	text := r.text(name)
	v, ok := sysfile.Leading([]byte(text))
	if text == "" || !ok || v <= 0 || v > max {
		return amdgpu.Number{}
	}
	return amdgpu.Known(v * times)
}

// readLink reads the link to the machine, and the errors that PCIe reported for it. A link
// without an answer has the width 63 and no speed.
func (r *Reader) readLink(s *reading.State) {
	p := &s.PCIe
	p.Speed, p.SpeedMax = r.number("current_link_speed", 1000, 1e9), r.number("max_link_speed", 1000, 1e9)
	p.Lanes, p.LanesMax = r.number("current_link_width", 32, 1), r.number("max_link_width", 32, 1)
	for _, severity := range pci.AERSeverities {
		if n, ok := pci.AERTotal(r.text("aer_dev_" + severity)); ok {
			p.AER = append(p.AER, amdgpu.AERCount{Severity: severity, Errors: n})
		}
	}
}

// Limits far beyond any hardware.
const (
	maxCelsius = 250
	maxWatts   = 10_000
	maxRPM     = 30_000
)

// readSensors reads nouveau's hwmon (drivers/gpu/drm/nouveau/nouveau_hwmon.c). NVIDIA's own
// driver has none.
func (r *Reader) readSensors(s *reading.State) {
	entries, _ := r.root.ReadDir(path.Join(r.device.Sysfs, "hwmon"))
	if len(entries) == 0 {
		return
	}
	file := func(name string) string { return path.Join("hwmon", entries[0].Name(), name) }
	t := amdgpu.Temperature{Sensor: gpuSensor, Now: r.number(file("temp1_input"), maxCelsius*1000, .001),
		Critical:  r.number(file("temp1_crit"), maxCelsius*1000, .001),
		Emergency: r.number(file("temp1_emergency"), maxCelsius*1000, .001)}
	if t.Now.Known {
		s.Temperature, s.Temperatures = t, []amdgpu.Temperature{t}
	}
	s.Power.Input = r.number(file("power1_input"), maxWatts*1e6, 1e-6)
	s.Power.Now, s.Power.Cap = s.Power.Input, r.number(file("power1_max"), maxWatts*1e6, 1e-6)
	s.Fan.RPM = r.number(file("fan1_input"), maxRPM, 1)
	if v := r.number(file("in0_input"), 100_000, .001); v.Known {
		s.Rails = []amdgpu.Rail{{Name: gpuSensor, Volts: v.Value}}
	}
}

// gpuSensor names the die's sensor and rail.
const gpuSensor = "gpu"

// addLogged adds the memory errors of the kernel's log, unless nvidia-smi counts them
// already.
func addLogged(s *reading.State, e reading.LoggedErrors) {
	ras := &s.RAS
	if ras.Errors == nil && e.Uncorrectable > 0 {
		ras.Errors = &amdgpu.Errors{Uncorrectable: e.Uncorrectable}
		ras.Blocks = []amdgpu.BlockErrors{{Block: "xid", Uncorrectable: amdgpu.Known(float64(e.Uncorrectable))}}
	}
	if ras.BadPages == nil && e.Pending+e.Failed > 0 {
		ras.BadPages = &amdgpu.BadPages{Pending: e.Pending, Unreservable: e.Failed}
	}
}

// procGPUs is the folder of NVIDIA's driver with its GPUs (nv-procfs.c of its open
// modules).
const procGPUs = "/proc/driver/nvidia/gpus"

// Node returns the name in /dev of a GPU, such as nvidia0; "" if it has none.
func Node(root host.Root, pci string) string {
	b, err := sysfile.ReadOnce(root.Path(path.Join(procGPUs, pci, "information")))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(line, "Device Minor:"); ok {
			if _, err := strconv.ParseUint(strings.TrimSpace(n), 10, 8); err == nil {
				return "nvidia" + strings.TrimSpace(n)
			}
		}
	}
	return ""
}

// information holds a file of that name below procGPUs.
type information struct{ model, uuid, vbios string }

// parseInformation reads lines "GPU UUID: GPU-4d0a...". A value that the driver does not
// have yet contains question marks.
func parseInformation(text string) (i information) {
	places := map[string]*string{"Model": &i.model, "GPU UUID": &i.uuid, "Video BIOS": &i.vbios}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if to := places[key]; to != nil && len(value) <= 100 && !strings.Contains(value, "?") {
			*to = value
		}
	}
	return i
}

// DriverVersion returns the version of NVIDIA's driver, "" if it is not loaded.
func DriverVersion(r host.Root) string {
	if b, err := sysfile.ReadOnce(r.Path("/sys/module/nvidia/version")); err == nil {
		return sysfile.Clean(b)
	}
	b, _ := sysfile.ReadOnce(r.Path("/proc/driver/nvidia/version"))
	return parseVersion(sysfile.Clean(b))
}

// parseVersion finds "580.159.04" in the line "NVRM version: NVIDIA UNIX Open Kernel Module
// for x86_64  580.159.04  Release Build".
func parseVersion(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	for _, word := range strings.Fields(line) {
		major, rest, found := strings.Cut(word, ".")
		_, err := strconv.ParseUint(major, 10, 16)
		if found && err == nil && strings.Trim(rest, "0123456789.") == "" && len(word) <= 20 {
			return word
		}
	}
	return ""
}
