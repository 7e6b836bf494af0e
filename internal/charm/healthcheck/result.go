package healthcheck

import (
	"errors"
	"fmt"
	"path"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

func lockFile(name string) string { return path.Join(Dir, name+".lock") }

// OutputFile returns the file with the output of a GPU's last health check.
func OutputFile(name string) string { return path.Join(OutputDir, name+".txt") }

// Lock prevents a second health check of a GPU. The error is host.ErrLocked if one runs.
// The kernel releases the lock when this process ends.
func Lock(r host.Root, name string) (unlock func(), err error) { return r.TryLock(lockFile(name)) }

// Write stores the result of a health check for the next look.
func Write(r host.Root, p quarantine.HealthCheck) error { return resultFile(p.Name).Write(r, p) }

// WriteOutput stores the output of a health check for people.
func WriteOutput(r host.Root, name, output string) error {
	if err := r.MkdirAll(OutputDir, 0o700); err != nil {
		return err
	}
	return r.WriteFile(OutputFile(name), []byte(output), 0o600)
}

// Read returns the last result of a GPU's health check, and whether one runs now. A damaged
// result is ignored: the health check runs again.
func Read(r host.Root, name string) (p quarantine.HealthCheck, err error) {
	unlock, err := Lock(r, name)
	running := errors.Is(err, host.ErrLocked)
	if err != nil && !running {
		return p, fmt.Errorf("cannot check whether gpu-health-check runs: %w", err)
	}
	// The result is read under the lock, because a health check writes it before its end.
	p, _ = resultFile(name).Read(r)
	if unlock != nil {
		unlock()
	}
	p.Name, p.Running = name, running
	return p, nil
}

func resultFile(name string) statefile.File[quarantine.HealthCheck] {
	return statefile.File[quarantine.HealthCheck]{Path: path.Join(Dir, name+".json"), Mode: 0o600,
		Disposable: true, Valid: func(p quarantine.HealthCheck) error {
			if p.Name != name || p.End != quarantine.Passed && p.End != quarantine.Failed && p.End != quarantine.NotRun {
				return fmt.Errorf("end %q of GPU %q", p.End, p.Name)
			}
			return nil
		}}
}
