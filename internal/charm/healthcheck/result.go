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

// maxResult is more bytes than a result has.
const maxResult = 16 << 10

func lockFile(name string) string   { return path.Join(Dir, name+".lock") }
func resultFile(name string) string { return path.Join(Dir, name+".json") }

// OutputFile has what the last proof of a GPU wrote.
func OutputFile(name string) string { return path.Join(OutputDir, name+".txt") }

// Lock keeps a second proof of a GPU away: the error is host.ErrLocked where one runs.
// The kernel gives it back when this process dies.
func Lock(r host.Root, name string) (unlock func(), err error) { return r.TryLock(lockFile(name)) }

// Write keeps how a proof ended, for the next look.
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

// WriteOutput keeps what a proof wrote, for people.
func WriteOutput(r host.Root, name, output string) error {
	if err := r.MkdirAll(OutputDir, 0o700); err != nil {
		return err
	}
	return r.WriteFile(OutputFile(name), []byte(output), 0o600)
}

// Read is what is known of a GPU's proofs: how the last one ended, as long as somebody
// wrote that down, and whether one runs. A damaged result is none: it is run again.
func Read(r host.Root, name string) (p quarantine.Proof, err error) {
	unlock, err := Lock(r, name)
	running := errors.Is(err, host.ErrLocked)
	if err != nil && !running {
		return p, fmt.Errorf("cannot tell whether gpu-proof runs: %w", err)
	}
	// The result is read while the lock is held: one that has ended has written it.
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

// decode reads what Write wrote.
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
