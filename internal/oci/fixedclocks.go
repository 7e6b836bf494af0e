package oci

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
)

// clocksVariable is the environment variable of a task that measures. With 1 the task gets
// GPUs with fixed clocks if that is possible. With required it does not run without them.
const clocksVariable = "GPU_FIXED_CLOCKS"

// readClocksRequest reads GPU_FIXED_CLOCKS.
func readClocksRequest(env []string) (asks, required bool, err error) {
	value, _ := edits.Lookup(env, clocksVariable)
	switch value = strings.TrimSpace(value); value {
	case "", "0":
		return false, false, nil
	case "1":
		return true, false, nil
	case "required":
		return true, true, nil
	}
	return false, false, fmt.Errorf("cannot give the task GPUs with %s=%q: it is not 0, 1 or required",
		clocksVariable, value[:min(len(value), 100)])
}

// fixClocks fixes the clocks of the GPUs that a task has leased, if the task requests it,
// and adds the result to the task. If an earlier task left clocks fixed, they are
// restored first, for any new holder.
func (w *wrapper) fixClocks(e *edits.Edits, s *settings, c *cmdline.Call, b bundle, f facts, h heldLease) error {
	// If this fails, the unit's watcher restores the clocks within seconds.
	_ = w.restoreClocks(s, h.gpus)
	if !f.task {
		return nil
	}
	asks, required, err := readClocksRequest(f.env)
	if err != nil || !asks {
		return err
	}
	dir, err := filepath.Abs(c.Bundle)
	if err != nil {
		return err
	}
	level, err := w.fixAll(s, fixedclocks.Task{Container: c.ID, Bundle: dir}, h)
	v := fixedclocks.VerdictOf([]fixedclocks.Measurement{{Level: level}})
	if err != nil {
		v = fixedclocks.Verdict{Reason: "the clocks of its GPUs are not fixed: " + err.Error()}
	}
	if err != nil && required {
		return fmt.Errorf("cannot fix the clocks of the task's GPUs: %w; %s=1 runs the task without them",
			err, clocksVariable)
	}
	if err := fixedclocks.MakeVerdict(b.fd, v); err != nil {
		return fmt.Errorf("cannot write %s of the task: %w", fixedclocks.VerdictName, err)
	}
	e.Mounts = append(e.Mounts, edits.Mount{Destination: fixedclocks.VerdictPath, Type: "bind",
		Source:  filepath.Join(dir, fixedclocks.VerdictName),
		Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}})
	e.Process.Env.Set = append(slices.Clone(e.Process.Env.Set), fixedclocks.RecordVariable+"="+fixedclocks.VerdictPath)
	return nil
}

// fixAll fixes the clocks of all GPUs of a lease or, after an error, none.
func (w *wrapper) fixAll(s *settings, t fixedclocks.Task, h heldLease) (level fixedclocks.Level, err error) {
	switch {
	case s.Leases == nil && len(s.GPUs) > 0:
		return "", errors.New("its GPUs are shared, not leased")
	case h.empty():
		return "", errors.New("it gets no GPU")
	case !slices.ContainsFunc(s.GPUs, func(g GPU) bool { return g.Clocks != nil }):
		return "", errors.New("this machine does not fix clocks")
	}
	for _, name := range h.gpus {
		clocks := s.clocksOf(name)
		if clocks == nil {
			err = errors.New("it is not a whole GPU from AMD")
		} else {
			level, err = clocks.Level, w.clockStore(s).Set(name, *clocks, t)
		}
		if err != nil {
			return "", fixedclocks.JoinErrors(fmt.Errorf("GPU %s: %w", name, err), w.restoreClocks(s, h.gpus))
		}
	}
	return level, nil
}

// restoreClocks restores the clocks of GPUs. The caller has leased all of them, so the task
// that fixed them has ended.
func (w *wrapper) restoreClocks(s *settings, gpus []string) (failed error) {
	for _, name := range gpus {
		if clocks := s.clocksOf(name); clocks != nil {
			_, err := w.clockStore(s).Restore(name, clocks.Sysfs, func() (string, error) { return "", nil })
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// clocksOf returns how the clocks of a GPU are fixed, and nil if they never are.
func (s *settings) clocksOf(name string) *fixedclocks.Setting {
	for _, g := range s.GPUs {
		if g.Name == name {
			return g.Clocks
		}
	}
	return nil
}

func (w *wrapper) clockStore(s *settings) fixedclocks.Store {
	return fixedclocks.Store{Dir: s.Leases.Clocks, Now: w.now, Sleep: w.sleep}
}
