package release

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

// child runs this test binary's TestChild as another process.
func child(t testing.TB, do, arg string, h host.Host) (p *os.Process, in io.Closer, out func() string) {
	t.Helper()
	inR, inW, err := os.Pipe()
	require.NoError(t, err)
	outR, outW, err := os.Pipe()
	require.NoError(t, err)
	p, err = os.StartProcess(os.Args[0], []string{os.Args[0], "-test.run=^TestChild$"}, &os.ProcAttr{
		Env:   append(os.Environ(), "CHILD_DOES="+do, "CHILD_ARG="+arg, "CHILD_ROOT="+string(h.Root)),
		Files: []*os.File{inR, outW, os.Stderr},
	})
	require.NoError(t, err)
	inR.Close()
	outW.Close()
	t.Cleanup(func() {
		inW.Close()
		p.Kill() // an error: it ended, or was waited for
		p.Wait()
	})
	return p, inW, func() string {
		var line []byte
		for b := make([]byte, 1); ; {
			if n, err := outR.Read(b); n == 0 || err != nil || b[0] == '\n' {
				return string(line)
			}
			line = append(line, b[0])
		}
	}
}

// TestChild is what the other process does.
func TestChild(t *testing.T) {
	h := hosttest.RealAt(host.Root(os.Getenv("CHILD_ROOT")))
	h.Clock = hosttest.Clock{T: hosttest.Now, Slept: func(time.Duration) { panic("a hook waits") }}
	switch os.Getenv("CHILD_DOES") {
	case "lock":
		_, err := tryLock(h.Root)
		require.NoError(t, err)
		os.Stdout.WriteString("locked\n")
		io.Copy(io.Discard, os.Stdin)
	case "install":
		r := Install{Release: Release{Version: "8.2.5", Mirror: os.Getenv("CHILD_ARG"), Arch: "amd64", Shared: true, Unit: "worker/9"}}
		if err := resourcetest.Apply(t, h, r); err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			return
		}
		os.Stdout.WriteString("installed\n")
	default:
		t.Skip("it is a part of other tests")
	}
}

// D7, D9: no hook waits for another unit; the error names it and is one
// that the next hook mends.
func TestInstallNeverWaitsForAnotherProcess_D7_D9(t *testing.T) {
	a, b := sharing(t)
	m := newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	holder, in, out := child(t, "lock", "", a)
	require.Equal(t, "locked", out())
	r := m.shared("worker/0", "8.2.5")
	b.Clock = hosttest.Clock{T: hosttest.Now, Slept: func(time.Duration) { t.Error("a hook waits") }}
	for _, err := range []error{resourcetest.Apply(t, b, r), resourcetest.Apply(t, b, r), r.Prepare(t.Context(), b, nil)} {
		var wait *waitError
		require.ErrorAs(t, err, &wait)
		require.True(t, wait.Temporary())
		require.Equal(t, "Another unit downloading, waiting...", wait.Waiting())
	}
	require.Empty(t, m.asked)
	require.NoError(t, in.Close())
	_, err := holder.Wait()
	require.NoError(t, err)
	require.NoError(t, resourcetest.Apply(t, b, r))
	require.Equal(t, "8.2.5", inUse(t, b))
}

// gate is a mirror with tarballs that wait until the test lets them go.
func (m *mirror) gate(t testing.TB) (url string, asked chan struct{}, open chan struct{}) {
	asked, open = make(chan struct{}, 10), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			asked <- struct{}{}
			select {
			case <-open:
			case <-r.Context().Done():
				return
			}
		}
		m.serve(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked, open
}

// Of two processes that install at the same time, one downloads.
func TestOneOfTwoProcessesDownloads_D7(t *testing.T) {
	a, b := sharing(t)
	m := newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	url, asked, open := m.gate(t)
	_, _, first := child(t, "install", url, a)
	<-asked
	_, _, second := child(t, "install", url, b)
	require.Equal(t, "cannot install Concourse 8.2.5 into the shared storage: Another unit downloading, waiting...", second())
	close(open)
	require.Equal(t, "installed", first())
	_, _, again := child(t, "install", url, b)
	require.Equal(t, "installed", again())
	require.Equal(t, 1, tarballs(m))
	require.Equal(t, "8.2.5", inUse(t, b))
}

// D8: a unit that was killed in the middle of it holds no one up.
func TestInstallGoesOnAfterAnotherProcessWasKilled_D8(t *testing.T) {
	a, b := sharing(t)
	m := newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	url, asked, _ := m.gate(t)
	killed, _, _ := child(t, "install", url, a)
	<-asked
	require.NoError(t, killed.Kill())
	_, err := killed.Wait()
	require.NoError(t, err)
	require.NoError(t, resourcetest.Apply(t, b, m.shared("worker/0", "8.2.5")))
	require.Equal(t, "8.2.5", inUse(t, b))
	require.Empty(t, resourcetest.Ops(t, b, m.shared("worker/0", "8.2.5")))
	require.False(t, a.Exists(downloadDir))
}

// What another unit finished between plan and lock is not done again.
func TestInstallSeesWhatAnotherUnitFinished(t *testing.T) {
	a, b := sharing(t)
	m := newMirror(t)
	m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	p := planned(t, b, m.shared("worker/0", "8.2.5"))
	require.NoError(t, resourcetest.Apply(t, a, m.shared("web/0", "8.2.5")))
	applied(t, p)
	require.Equal(t, "8.2.5", inUse(t, b))
	require.Equal(t, 1, tarballs(m))
}
