package oci

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/clockpin"
)

// benchVariable is the environment variable of a task that measures. With 1 the task gets
// GPUs with fixed clocks if that is possible. With required it does not run without them.
const benchVariable = "GPU_BENCH"

// readBenchRequest reads GPU_BENCH.
func readBenchRequest(env []string) (asks, required bool, err error) {
	value, _ := edits.Lookup(env, benchVariable)
	switch value = strings.TrimSpace(value); value {
	case "", "0":
		return false, false, nil
	case "1":
		return true, false, nil
	case "required":
		return true, true, nil
	}
	return false, false, fmt.Errorf("cannot give the task GPUs with %s=%q: it is not 0, 1 or required",
		benchVariable, value[:min(len(value), 100)])
}

// fixClocks fixes the clocks of the GPUs that a task has leased, if the task requests it,
// and adds the result to the task. GPUs that an earlier task left pinned get their clocks
// back first, whoever leases them now.
func (w *wrapper) fixClocks(e *edits.Edits, s *settings, c *cmdline.Call, b bundle, f facts, h heldLease) error {
	// If this fails, the unit's watcher gives the clocks back within seconds.
	_ = w.unpin(s, h.gpus)
	if !f.task {
		return nil
	}
	asks, required, err := readBenchRequest(f.env)
	if err != nil || !asks {
		return err
	}
	dir, err := filepath.Abs(c.Bundle)
	if err != nil {
		return err
	}
	level, err := w.pinAll(s, clockpin.Task{Container: c.ID, Bundle: dir}, h)
	v := clockpin.VerdictOf([]clockpin.Record{{Level: level}})
	if err != nil {
		v = clockpin.Verdict{Reason: "the clocks of its GPUs are not fixed: " + err.Error()}
	}
	if err != nil && required {
		return fmt.Errorf("cannot fix the clocks of the task's GPUs: %w; with %s=1 it runs all the same, and is "+
			"told", err, benchVariable)
	}
	if err := clockpin.MakeVerdict(b.fd, v); err != nil {
		return fmt.Errorf("cannot write %s of the task: %w", clockpin.VerdictName, err)
	}
	e.Mounts = append(e.Mounts, edits.Mount{Destination: clockpin.VerdictPath, Type: "bind",
		Source:  filepath.Join(dir, clockpin.VerdictName),
		Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}})
	e.Process.Env.Set = append(slices.Clone(e.Process.Env.Set), clockpin.RecordVariable+"="+clockpin.VerdictPath)
	return nil
}

// pinAll pins all GPUs of a lease or, after an error, none.
func (w *wrapper) pinAll(s *settings, t clockpin.Task, h heldLease) (level clockpin.Level, err error) {
	switch {
	case s.Leases == nil && len(s.GPUs) > 0:
		return "", errors.New("tasks of this unit share GPUs (gpu-sharing)")
	case h.empty():
		return "", errors.New("it gets no GPU")
	case !slices.ContainsFunc(s.GPUs, func(g GPU) bool { return g.Clocks != nil }):
		return "", errors.New("this unit does not fix clocks (gpu-bench)")
	}
	for _, name := range h.gpus {
		clocks := s.clocksOf(name)
		if clocks == nil {
			err = errors.New("it is no whole GPU of AMD's")
		} else {
			level, err = clocks.Level, w.clockPins(s).Set(name, *clocks, t)
		}
		if err != nil {
			return "", clockpin.JoinErrors(fmt.Errorf("GPU %s: %w", name, err), w.unpin(s, h.gpus))
		}
	}
	return level, nil
}

// unpin gives GPUs their own clocks back. The caller has leased all of them, so the task
// that pinned them has ended.
func (w *wrapper) unpin(s *settings, gpus []string) (failed error) {
	for _, name := range gpus {
		if clocks := s.clocksOf(name); clocks != nil {
			_, err := w.clockPins(s).Restore(name, clocks.Dir, func() (string, error) { return "", nil })
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// clocksOf returns how the clocks of a GPU are fixed, and nil if they never are.
func (s *settings) clocksOf(name string) *clockpin.Clocks {
	for _, g := range s.GPUs {
		if g.Name == name {
			return g.Clocks
		}
	}
	return nil
}

func (w *wrapper) clockPins(s *settings) clockpin.Pins {
	return clockpin.Pins{Dir: s.Leases.Clocks, Now: w.now, Sleep: w.sleep}
}
