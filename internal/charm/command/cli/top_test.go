package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/charm"
	"concourse-ci-machine/internal/charm/command/actions"
	"concourse-ci-machine/internal/charm/command/term"
)

func TestTopOnATerminalEndsAtCtrlC(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"gpus": [{"index": 0, "users": [{"container": "task", "processes": 1}]}, {"index": 1, "health": {"state": "healthy"}}, {"index": 2, "health": {"state": "healthy"}}]}`)
	}))
	defer s.Close()
	master, slave := pseudoTerminal(t)
	require.NoError(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 6, Col: 80}))
	var errs bytes.Buffer
	p := &caller{ctx: t.Context(), charm: &actions.Actions{Charm: &charm.Charm{Host: host.New(t.TempDir()), ExporterURL: s.URL}},
		stdout: slave, stderr: &errs, screen: term.Terminal(slave, func(string) string { return "" })}
	require.NotNil(t, p.screen)
	ended := make(chan error)
	go func() { ended <- p.repeatTop(time.Hour) }()
	got, buffer := "", make([]byte, 4096)
	for !strings.HasSuffix(got, "\x1b[?7h") {
		n, err := master.Read(buffer)
		require.NoError(t, err)
		got += string(buffer[:n])
	}
	require.Contains(t, got, "task")
	require.Contains(t, got, "GPUs that are well and not in use are left out: 2", "the screen has six lines")
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	require.NoError(t, <-ended)
	require.Empty(t, errs.String())
}
