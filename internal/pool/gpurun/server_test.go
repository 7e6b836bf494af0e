package gpurun

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// service serves a machine with GPUs and without control groups. The client of its tests is
// this process, so that a lease lasts as long as the test.
func service(t *testing.T, gfx ...string) (socket string) {
	t.Helper()
	return serviceOf(t, &Server{
		Groups: func() (rungroup.Tree, error) { return rungroup.Tree{}, errors.New("no cgroup v2") },
	}, gfx...)
}

// serviceOf is service with a server that has its groups.
func serviceOf(t *testing.T, s *Server, gfx ...string) (socket string) {
	t.Helper()
	return serveMachine(t, s, machineOf(gfx...))
}

func serveMachine(t *testing.T, s *Server, m Machine) (socket string) {
	t.Helper()
	m.Leases.Dir, m.Leases.Euid = filepath.Join(t.TempDir(), "leases"), uint32(os.Geteuid())
	dir, err := os.MkdirTemp("", "run")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	s.Root, s.Machine, s.Log, s.Idle = host.Root(t.TempDir()), func() (Machine, error) { return m, nil }, io.Discard, time.Hour
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context(), l) }()
	t.Cleanup(func() {
		require.NoError(t, <-served)
		l.Close()
	})
	return socket
}

func ask(socket string, limit time.Duration, r Request) (*Held, []string, error) {
	var waits []string
	c := Client{Socket: socket, Limit: limit, Waits: func(text string) { waits = append(waits, text) }}
	h, err := c.Lease(r)
	return h, waits, err
}

// Without control groups the client learns that the other GPUs are not hidden.
func TestGrantNamesTheGPUsAndTheirVariables(t *testing.T) {
	socket := service(t, "gfx90a", "gfx942")
	h, _, err := ask(socket, 0, Request{GPUs: 1, Arch: "gfx942", Title: "a job", Job: "x"})
	require.NoError(t, err)
	defer h.End(0)
	require.Equal(t, "no cgroup v2", h.Unlimited)
	require.Regexp(t, `^run-[0-9a-f]{12} has GPU 1 \(AMD Test gfx942, 0000:02:00.0\)$`, h.Text(0))
	require.True(t, strings.HasSuffix(h.Text(90*time.Second), " after 1m30s"))
	require.Contains(t, h.Variables, "ROCR_VISIBLE_DEVICES=GPU-000000000000000b")
	require.Contains(t, h.Variables, "HIP_VISIBLE_DEVICES=0")
	require.Contains(t, h.Variables, Variable+"="+h.Run)
}

func TestRefusedRequestsNameTheHolder(t *testing.T) {
	socket := service(t, "gfx90a")
	h, _, err := ask(socket, -1, Request{GPUs: 1, Title: "the first"})
	require.NoError(t, err)
	defer h.End(0)
	_, _, err = ask(socket, 0, Request{GPUs: 1})
	require.ErrorContains(t, err, "is held by "+h.Run+" (the first)")
	_, waits, err := ask(socket, 1500*time.Millisecond, Request{GPUs: 1})
	require.ErrorContains(t, err, "; waited 1.5s")
	for _, text := range waits {
		require.Contains(t, text, "(the first)")
	}
	_, _, err = ask(socket, -1, Request{GPUs: 2})
	require.ErrorContains(t, err, "cannot lease 2 GPUs: this machine has 1")
	_, _, err = ask(socket, -1, Request{GPUs: 1, Process: &lease.Process{PID: os.Getpid(), Start: 1}})
	require.ErrorContains(t, err, "has ended")
	_, _, err = ask(socket, -1, Request{IDs: []string{strings.Repeat("x", maxName+1)}})
	require.ErrorContains(t, err, "a name is too long")
	_, _, err = ask(socket, -1, Request{Title: strings.Repeat("x", maxRequest), GPUs: 1})
	require.Error(t, err)
}

func TestClientNamesTheFixOfAMissingService(t *testing.T) {
	_, _, err := ask(filepath.Join(t.TempDir(), "missing"), -1, Request{GPUs: 1})
	require.ErrorContains(t, err, "sudo systemctl start gpukit-run.socket")
}

// memberOf returns the groups of a machine on which this process is in the group of a run.
func memberOf(t *testing.T, run string) func() (rungroup.Tree, error) {
	dir := t.TempDir()
	own := filepath.Join(dir, strconv.Itoa(os.Getpid()))
	require.NoError(t, os.Mkdir(own, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(own, "cgroup"), []byte("0::/ci.service/gpukit-"+run+"\n"), 0o644))
	return func() (rungroup.Tree, error) { return rungroup.Tree{Mount: dir, Proc: dir}, nil }
}

func TestRecordOfARunIsForItsOwnProcesses(t *testing.T) {
	const own, other = "run-4f1c0a2b91d3", "run-ffffffffffff"
	socket := serviceOf(t, &Server{Groups: memberOf(t, own), Explain: func(run string, json bool) (string, error) {
		return fmt.Sprint("the record of ", run, " in JSON: ", json), nil
	}}, "gfx90a")
	text, err := Client{Socket: socket}.Explain(own, true)
	require.NoError(t, err)
	require.Equal(t, "the record of run-4f1c0a2b91d3 in JSON: true", text)
	_, err = Client{Socket: socket}.Explain(other, false)
	require.EqualError(t, err, "cannot explain run-ffffffffffff to a process outside of it: run it with sudo")
	_, err = Client{Socket: socket}.Explain("../tasks", false)
	require.ErrorContains(t, err, "it names no run to explain")
	_, _, err = ask(socket, 0, Request{GPUs: 1})
	require.ErrorContains(t, err, "is part of "+own+" and has its GPUs; run the command without gpukit run")
}

// A service without free file descriptors cannot watch a process.
func TestRunThatCannotBeWatchedKeepsItsGPUs(t *testing.T) {
	m := machineOf("gfx90a")
	m.Leases.Dir, m.Leases.Euid = filepath.Join(t.TempDir(), "leases"), uint32(os.Geteuid())
	self, err := lease.Leases{}.ProcessOf(os.Getpid())
	require.NoError(t, err)
	call := lease.RunCall{ID: "run-4f1c0a2b91d3", PID: self.PID, Start: self.Start}
	_, err = m.Leases.TryForRun(call, lease.Want{Count: 1})
	require.NoError(t, err)
	s := &Server{Machine: func() (Machine, error) { return m, nil }, Log: io.Discard, runs: []*run{{call: call, over: true}}}
	s.endRuns()
	states, _, err := m.Leases.Read()
	require.NoError(t, err)
	require.True(t, states[0].Held)
	require.Len(t, s.runs, 1)
}
