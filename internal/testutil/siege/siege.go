// Package siege attacks a program that serves metrics as bad clients do. They send requests
// without reading, and keep more connections open than the program may have files. It is
// only for tests.
package siege

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	readers = 20     // more than parallel scrapes
	asked   = 20_000 // requests of each; the answers exceed the kernel's buffers
	idle    = 600    // more than files
	files   = 256    // limit of the program's open files
	scrapes = 40
	stuck   = time.Minute // an honest client gives up after it
)

// Run attacks the process that serves address, and requires that other clients are served
// during the attack.
func Run(t *testing.T, address string, pid int) {
	t.Helper()
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: files}, nil))
	var open []net.Conn
	t.Cleanup(func() {
		for _, c := range open {
			c.Close()
		}
	})
	dial := func() net.Conn {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		open = append(open, c)
		return c
	}
	for range readers {
		c := dial()
		require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4096))
		go io.WriteString(c, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", asked)) // until it is closed
	}
	serves(t, address)
	for range idle {
		dial()
	}
	serves(t, address)
	// The oldest connections are closed, whatever their client.
	require.NoError(t, open[0].SetDeadline(time.Now().Add(stuck)))
	_, err := io.Copy(io.Discard, open[0])
	var timeout net.Error
	require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "a client that never read is still there")
}

// serves requires answers to scrapes and to health checks.
func serves(t *testing.T, address string) {
	t.Helper()
	client := http.Client{Timeout: stuck, Transport: &http.Transport{DisableKeepAlives: true}}
	for range scrapes {
		for _, path := range []string{"/metrics", "/-/healthy"} {
			resp, err := client.Get("http://" + address + path)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, http.StatusOK, resp.StatusCode, path)
		}
	}
}
