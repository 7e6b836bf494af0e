package healthcheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/pool/quarantine"
)

// maxResult bounds a result, in bytes.
const maxResult = 16 << 10

func lockFile(name string) string   { return path.Join(Dir, name+".lock") }
func resultFile(name string) string { return path.Join(Dir, name+".json") }

// OutputFile returns the file with the output of a GPU's last health check.
func OutputFile(name string) string { return path.Join(OutputDir, name+".txt") }

// Lock prevents a second health check of a GPU. The error is host.ErrLocked if one runs.
// The kernel releases the lock when this process ends.
func Lock(r host.Root, name string) (unlock func(), err error) { return r.TryLock(lockFile(name)) }

// Write stores the result of a health check for the next look.
func Write(r host.Root, p quarantine.Proof) error {
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("cannot encode the result of gpu-proof: %w", err)
	}
	if err := r.MkdirAll(Dir, 0o700); err != nil {
		return err
	}
	return r.WriteFile(resultFile(p.Name), append(data, '\n'), 0o600)
}

// WriteOutput stores the output of a health check for people.
func WriteOutput(r host.Root, name, output string) error {
	if err := r.MkdirAll(OutputDir, 0o700); err != nil {
		return err
	}
	return r.WriteFile(OutputFile(name), []byte(output), 0o600)
}

// Read returns the last result of a GPU's health check, and whether one runs now. A damaged
// result is ignored: the health check runs again.
func Read(r host.Root, name string) (p quarantine.Proof, err error) {
	unlock, err := Lock(r, name)
	running := errors.Is(err, host.ErrLocked)
	if err != nil && !running {
		return p, fmt.Errorf("cannot tell whether gpu-proof runs: %w", err)
	}
	// The result is read under the lock, because a health check writes it before its end.
	if data, err := readResult(r, name); err == nil {
		p, _ = decode(data, name)
	}
	if unlock != nil {
		unlock()
	}
	p.Name, p.Running = name, running
	return p, nil
}

func readResult(r host.Root, name string) ([]byte, error) {
	f, err := os.OpenFile(r.Path(resultFile(name)), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxResult+1))
}

// decode decodes a result of Write.
func decode(data []byte, name string) (p quarantine.Proof, ok bool) {
	if len(data) > maxResult || json.Unmarshal(data, &p) != nil || p.Name != name {
		return quarantine.Proof{}, false
	}
	switch p.End {
	case quarantine.Passed, quarantine.Failed, quarantine.NotRun:
		return p, true
	}
	return quarantine.Proof{}, false
}
