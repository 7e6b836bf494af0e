package workstation

import (
	"context"
	"errors"
	"os"
	"path"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
)

// clocksDir has a directory for each run with fixed clocks.
const clocksDir = wellknown.RunDir + "/fixed-clocks"

// ClocksDir returns the directory with the verdict of a run on its fixed clocks.
func ClocksDir(run string) string { return path.Join(clocksDir, run) }

// clocksTime is longer than the driver takes on a busy machine. A GPU that hangs costs a
// process, and a run with fixed clocks this time.
const clocksTime = 20 * time.Second

// ClockSetting returns how the clocks of a GPU are fixed, and nil if they cannot be.
func ClockSetting(r host.Root, c oci.Config, name string) *fixedclocks.Setting {
	for _, g := range c.GPUs {
		if g.Name == name && g.Clocks != nil {
			return &fixedclocks.Setting{Sysfs: r.Path(g.Clocks.Sysfs), Level: g.Clocks.Level}
		}
	}
	return nil
}

// clocks implements gpurun.Clocks. Each change is made by a separate process, which is given
// up after clocksTime.
type clocks struct {
	host.Host
	program string // gpukit
}

func (c clocks) store() fixedclocks.Store {
	return fixedclocks.Store{Dir: c.Path(fixedclocks.DefaultDir), Proc: c.Path("/proc")}
}

// Fixed implements gpurun.Clocks.
func (c clocks) Fixed(gpu string) (run string, fixed bool) {
	r, err := c.store().ReadCurrent(gpu)
	if r == nil {
		return "", err != nil // it is damaged, or being written
	}
	return r.Container, true
}

// Fix implements gpurun.Clocks.
func (c clocks) Fix(gpu, run string) error { return c.change(gpu, "fix", run) }

// Restore implements gpurun.Clocks.
func (c clocks) Restore(gpu string) error { return c.change(gpu, "back") }

// Reset implements gpurun.Clocks.
func (c clocks) Reset(gpu string) error { return c.change(gpu, "end") }

func (c clocks) change(gpu string, how ...string) error {
	_, err := c.Run(context.Background(), host.Command{Deadline: clocksTime,
		Argv: append([]string{c.program, "gpu", "fixed-clocks", gpu}, how...)})
	if failed, ok := errors.AsType[*host.CommandError](err); ok && failed.Timeout > 0 {
		return errors.New("GPU " + gpu + " does not answer")
	} else if ok && failed.Stderr != "" {
		return errors.New(failed.LastLine())
	}
	return err
}

// Record implements gpurun.Clocks.
func (c clocks) Record(run string) string { return path.Join(ClocksDir(run), fixedclocks.VerdictName) }

// Forget implements gpurun.Clocks.
func (c clocks) Forget(run string) error { return os.RemoveAll(c.Path(ClocksDir(run))) }

// of returns the level of a run's clocks and why measurements are not valid, "" if they are.
func (c clocks) of(run string, gpus []string) (level fixedclocks.Level, why string) {
	var records []fixedclocks.Measurement
	for _, gpu := range gpus {
		if r, err := c.store().ReadCurrent(gpu); err == nil && r != nil && r.Container == run {
			records = append(records, *r)
		}
	}
	if len(records) == 0 {
		return "", ""
	}
	v := fixedclocks.VerdictOf(records)
	return v.Level, v.Reason
}
