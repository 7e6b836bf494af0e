package oci

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"concourse-ci-machine/internal/gpu/cdispec/edits"
	"concourse-ci-machine/internal/oci/cmdline"
	"concourse-ci-machine/internal/pool/clockpin"
)

// benchVariable is the environment variable by which a task says that it measures, and
// wants GPUs whose clocks are fixed: 1, or required where it would rather not run else.
const benchVariable = "GPU_BENCH"

// asksBench reads GPU_BENCH.
func asksBench(env []string) (asks, required bool, err error) {
	value, _ := edits.Lookup(env, benchVariable)
	switch value = strings.TrimSpace(value); value {
	case "", "0":
		return false, false, nil
	case "1":
		return true, false, nil
	case "required":
		return true, true, nil
	}
	return false, false, fmt.Errorf("cannot give the task GPUs with %s=%q: it is not 0, 1 or required", benchVariable, value[:min(len(value), 100)])
}

// bench fixes the clocks of the GPUs that a task has leased, where it asks for that, and
// tells it whether it has done so. GPUs that a task before has left pinned are given back
// first, whoever gets them now.
func (w *wrapper) bench(e *edits.Edits, s *settings, c *cmdline.Call, b bundle, f facts, h held) error {
	// What can't be given back now the unit's look gives back in seconds.
	_ = w.unpin(s, h.gpus)
	if !f.task {
		return nil
	}
	asks, required, err := asksBench(f.env)
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
		return fmt.Errorf("cannot fix the clocks of the task's GPUs: %w; with %s=1 it runs all the same, and is told", err, benchVariable)
	}
	if err := clockpin.MakeVerdict(b.fd, v); err != nil {
		return fmt.Errorf("cannot write %s of the task: %w", clockpin.VerdictName, err)
	}
	e.Mounts = append(e.Mounts, edits.Mount{Destination: clockpin.VerdictPath, Type: "bind", Source: filepath.Join(dir, clockpin.VerdictName),
		Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}})
	e.Process.Env.Set = append(slices.Clone(e.Process.Env.Set), clockpin.RecordVariable+"="+clockpin.VerdictPath)
	return nil
}

// pinAll pins all GPUs of a lease, or none.
func (w *wrapper) pinAll(s *settings, t clockpin.Task, h held) (level clockpin.Level, err error) {
	switch {
	case s.Leases == nil && len(s.Devices) > 0:
		return "", errors.New("tasks of this unit share GPUs (gpu-sharing)")
	case h.none():
		return "", errors.New("it gets no GPU")
	case s.Leases.Bench == nil:
		return "", errors.New("this unit does not fix clocks (gpu-bench)")
	}
	for _, name := range h.gpus {
		g := s.benchOf(name)
		if g == nil {
			err = errors.New("it is no whole GPU of AMD's")
		} else {
			level, err = g.Level, w.pins(s).Set(clockpin.Card{Name: name, Dir: g.Sysfs, Level: g.Level}, t)
		}
		if err != nil {
			return "", clockpin.Both(fmt.Errorf("GPU %s: %w", name, err), w.unpin(s, h.gpus))
		}
	}
	return level, nil
}

// unpin gives GPUs their own clocks back. The caller has the lease of all of them, so
// whoever they are pinned for has it no more.
func (w *wrapper) unpin(s *settings, gpus []string) (failed error) {
	for _, name := range gpus {
		if g := s.benchOf(name); g != nil {
			_, err := w.pins(s).Back(name, g.Sysfs, func() (string, error) { return "", nil })
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// benchOf is how a GPU may be pinned; nil where it may not.
func (s *settings) benchOf(name string) *BenchGPU {
	if s.Leases == nil || s.Leases.Bench == nil {
		return nil
	}
	for i, g := range s.Leases.Bench.GPUs {
		if g.Name == name {
			return &s.Leases.Bench.GPUs[i]
		}
	}
	return nil
}

func (w *wrapper) pins(s *settings) clockpin.Pins {
	return clockpin.Pins{Dir: s.Leases.Bench.Dir, Now: w.now, Sleep: w.sleep}
}
