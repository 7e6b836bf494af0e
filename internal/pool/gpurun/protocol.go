// Package gpurun gives GPUs to commands of users who are not root: the lease service, which
// runs as root, and its client. A request and its answers are lines of JSON on a unix socket.
//
// The service identifies a client by the kernel alone. It starts no program but gpukit, which
// changes clocks, opens no GPU and no file that a request names, and moves no process but the
// caller's own.
package gpurun

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// Socket is the path at which systemd listens for the service. Its group may lease GPUs.
const Socket = "/run/gpukit/run.sock"

// version is the version of the messages.
const version = 1

// Bounds of a request.
const (
	maxRequest = 16 << 10 // bytes
	maxGPUs    = 512
	maxName    = 200 // bytes of a GPU's name, an architecture or a job
)

// Request describes the GPUs that a client wants, or names a run to explain.
type Request struct {
	Version int      `json:"version"`
	GPUs    int      `json:"gpus,omitempty"`    // 0 with IDs
	IDs     []string `json:"gpu_ids,omitempty"` // numbers, PCI addresses or GPU-<unique id>; all of them
	Arch    string   `json:"arch,omitempty"`    // such as gfx942; "" for any
	Memory  uint64   `json:"memory,omitempty"`  // bytes that must be free on each GPU
	NoWait  bool     `json:"no_wait,omitempty"`
	Bench   bool     `json:"bench,omitempty"` // with fixed clocks
	// Waited is how long the client has waited, in milliseconds. See Server.arrival.
	Waited int64 `json:"waited_ms,omitempty"`
	// Process leases instead of the client, if it is of the same user. Nil means the client.
	Process *lease.Process `json:"process,omitempty"`
	Title   string         `json:"title,omitempty"` // for people; "" means the user and Command
	Command string         `json:"command,omitempty"`
	Job     string         `json:"job,omitempty"` // equal for reruns of a job; "" if not known
	// Explain names the run that the client is part of. Its record is the answer, in JSON if JSON
	// is set. The other fields have no effect then.
	Explain string `json:"explain,omitempty"`
	JSON    bool   `json:"json,omitempty"`
}

func (r Request) check() error {
	names := append(slices.Clone(r.IDs), r.Arch)
	switch {
	case r.Version != version:
		return fmt.Errorf("version %d of a request is not %d: restart what was started before gpukit was upgraded",
			r.Version, version)
	case r.Explain != "" && !rungroup.IsRun(r.Explain):
		return errors.New("it names no run to explain")
	case r.Explain != "":
		return nil
	case r.GPUs < 0 || r.GPUs > maxGPUs || len(r.IDs) > maxGPUs:
		return fmt.Errorf("a run has 1 to %d GPUs", maxGPUs)
	case (r.GPUs == 0) == (len(r.IDs) == 0):
		return errors.New("a request has either a number of GPUs or their names")
	case r.Process != nil && r.Process.PID < 2:
		return fmt.Errorf("process %d cannot lease GPUs", r.Process.PID)
	case slices.ContainsFunc(names, func(n string) bool { return len(n) > maxName }):
		return errors.New("a name is too long")
	}
	return nil
}

// Reply is one answer. The last one is Granted, Explained or Refused.
type Reply struct {
	Waiting string `json:"waiting,omitempty"` // why the request waits
	Refused string `json:"refused,omitempty"` // why it fails
	Granted *Grant `json:"granted,omitempty"`
	// Explained is the record of a run, as gpukit why shows it.
	Explained string `json:"explained,omitempty"`
}

// Grant describes the leased GPUs.
type Grant struct {
	Run string   `json:"run"`
	GPU []Leased `json:"gpus"`
	// Variables are NAME=VALUE for the environment of the command.
	Variables []string `json:"variables"`
	// Unlimited is why the command can also open other GPUs, "" if it cannot.
	Unlimited string `json:"unlimited,omitempty"`
	// Clocks is the level at which the clocks are fixed, "" if they are not.
	Clocks string `json:"clocks,omitempty"`
}

// Status is the last message of a client, after the end of its command.
type Status struct {
	Exit *int `json:"exit"` // exit status, or 128 and the number of the signal
}

// maxStatus bounds a Status, in bytes.
const maxStatus = 64

// End describes a run of which nothing remains.
type End struct {
	Run, Title     string
	GPUs           []string // names of their leases
	Started, Ended time.Time
	Exit           *int // nil if the client did not report it
}

// Leased describes one GPU of a run.
type Leased struct {
	Number  int    `json:"number"`
	Address string `json:"address"` // see gpu.Slot.Address
	Text    string `json:"text"`    // model, architecture, address and health
	// Taken is the percent of its memory that others use.
	Taken uint64 `json:"taken,omitempty"`
}

// readLine reads one line of at most most bytes.
func readLine(r io.Reader, most int64) ([]byte, error) {
	line, err := bufio.NewReader(io.LimitReader(r, most)).ReadBytes('\n')
	if errors.Is(err, io.EOF) && int64(len(line)) == most {
		return nil, fmt.Errorf("it has more than %d bytes", most)
	}
	return line, err
}

// decodeRequest reads a request that a user sent.
func decodeRequest(line []byte) (r Request, err error) {
	if err := json.Unmarshal(line, &r); err != nil {
		return Request{}, fmt.Errorf("it is not a request: %w", err)
	}
	if err := r.check(); err != nil {
		return Request{}, err
	}
	return r, nil
}

// CleanTitle returns a text of one line and at most lease.MaxTitle bytes.
func CleanTitle(text string) string {
	text = sanitize.Line(strings.TrimSpace(text), lease.MaxTitle)
	for len(text) > lease.MaxTitle {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}
