package nvidiagpu

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const file = "/run/nvidia.json"

// told is what a run of w leaves, nil for nothing.
func told(t *testing.T, w *Watcher) *Report {
	t.Helper()
	require.NoError(t, w.host.Remove(file))
	require.NoError(t, w.Write(t.Context(), file))
	data, err := w.host.ReadFile(file)
	if err != nil {
		return nil
	}
	r := new(Report)
	require.NoError(t, json.Unmarshal(data, r))
	return r
}

// machine is a host with an NVIDIA GPU and a program nvidia-smi that runs.
func machine(t *testing.T, script string) *Watcher {
	t.Helper()
	h := hosttest.RealAt(hosttest.Host(t, "nvidia-only"))
	if script != "" {
		require.NoError(t, h.WriteFile(places[0], []byte("#!/bin/sh\n"+script), 0o755))
	}
	return &Watcher{host: h}
}

func TestAnswerOfNVIDIASMIIsWritten(t *testing.T) {
	w := machine(t, `case "$1" in
--help-query-gpu) printf '"pci.bus_id"\nIt.\n\n"uuid" or "gpu_uuid"\nIt.\n\n"temperature.gpu"\nIt.\n' ;;
"--query-gpu=pci.bus_id,uuid,temperature.gpu") echo "00000000:0A:00.0, GPU-1, 61" ;;
*) echo "Field \"x\" is not a valid field to query."; exit 2 ;;
esac
[ "$2" = "" ] || [ "$2" = --format=csv,noheader,nounits ]`)
	want := &Report{At: hosttest.Now, GPUs: []Answer{{PCI: "0000:0a:00.0", UUID: "GPU-1", Values: map[string]float64{"temperature.gpu": 61}}}}
	require.Equal(t, want, told(t, w))
	st, err := w.host.Stat(file)
	require.NoError(t, err)
	require.Equal(t, "-rw-r--r--", st.Mode().String(), "the exporter is another user")
	require.NoError(t, w.host.WriteFile(places[0], []byte("#!/bin/sh\necho '00000000:0A:00.0, GPU-1, 61'; exit 15\n"), 0o755))
	want.Failure = "exit_15"
	require.Equal(t, want, told(t, w), "one GPU of several is lost: the others are told of")
	require.Nil(t, w.query, "it is asked again what it knows")
}

func TestFailureOfNVIDIASMIIsReported(t *testing.T) {
	for script, want := range map[string]string{
		"exit 9":           "exit_9", // no driver
		"echo Hello World": "format",
		"exec false":       "exit_1",
	} {
		r := told(t, machine(t, script))
		require.Equal(t, want, r.Failure, script)
		require.False(t, r.Stuck)
		require.Empty(t, r.GPUs)
	}
}

func TestNVIDIASMIRunsOnlyForAwakeGPUs(t *testing.T) {
	require.Nil(t, told(t, machine(t, "")), "there is none")
	const device = "/sys/devices/pci0000:00/0000:00:06.0/0000:0a:00.0"
	for name, change := range map[string]func(host.Root){
		"asleep":  func(r host.Root) { hosttest.Put(t, r, device+"/power/runtime_status", "suspended\n") },
		"falling": func(r host.Root) { hosttest.Put(t, r, device+"/power/runtime_status", "suspending\n") },
		"away":    func(r host.Root) { require.NoError(t, r.Remove("/dev/dri/renderD129")) },
		"nouveau": func(r host.Root) {
			data, err := r.ReadText(device + "/uevent")
			require.NoError(t, err)
			hosttest.Put(t, r, device+"/uevent", strings.Replace(data, "DRIVER=nvidia", "DRIVER=nouveau", 1))
		},
	} {
		w := machine(t, "exit 9")
		require.NotNil(t, told(t, w), name)
		change(w.host.Root)
		require.Nil(t, told(t, w), name)
	}
}

// hung is a runner. Its first command is killed at its deadline, and does not end then if
// ended is not nil.
type hung struct {
	runs  int
	ended chan struct{}
}

func (h *hung) Run(_ context.Context, c host.Command) ([]byte, error) {
	if h.runs++; h.runs > 1 {
		return nil, &host.CommandError{Argv: c.Argv, Code: 9, Err: errors.New("exit status 9")}
	}
	return nil, &host.CommandError{Argv: c.Argv, Code: -1, Timeout: c.Deadline, Err: context.DeadlineExceeded, Ended: h.ended}
}

// A process in the kernel's hands does not end when it is killed (state D): until it
// does, no second one is begun behind it.
func TestHangingNVIDIASMIIsNotStartedAgain(t *testing.T) {
	runner := &hung{ended: make(chan struct{})}
	w := machine(t, "exit 9")
	w.host.Runner = runner
	for range 3 {
		r := told(t, w)
		require.Equal(t, &Report{At: hosttest.Now, Failure: "timeout", Stuck: true, GPUs: []Answer{}}, r)
	}
	require.Equal(t, 1, runner.runs)
	close(runner.ended)
	require.Equal(t, "exit_9", told(t, w).Failure)
	require.Equal(t, 2, runner.runs)
}

func TestKilledNVIDIASMIIsRunAgain(t *testing.T) {
	runner := &hung{}
	w := machine(t, "exit 9")
	w.host.Runner = runner
	require.Equal(t, &Report{At: hosttest.Now, Failure: "timeout", GPUs: []Answer{}}, told(t, w))
	require.Equal(t, "exit_9", told(t, w).Failure)
}

// A real program that waits for ever is ended with Write, which writes nothing of it.
func TestWriteEndsWhileNVIDIASMIWaits(t *testing.T) {
	w := machine(t, `echo begun > "$0.begun"; exec cat "$0.pipe"`)
	pipe(t, w.host.Path(places[0]+".pipe"))
	stop, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Write(stop, file) }()
	require.Eventually(t, func() bool { return w.host.Exists(places[0] + ".begun") }, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	require.False(t, w.host.Exists(file))
}

func pipe(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, syscall.Mkfifo(name, 0o600))
}
