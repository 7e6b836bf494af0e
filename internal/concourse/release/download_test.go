package release

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

const name825 = "concourse-8.2.5-linux-amd64.tgz"

// bigRelease does not compress, so that there is something to resume.
func bigRelease(t *testing.T, version string) []byte {
	noise := make([]byte, 600<<10)
	rand.Read(noise)
	return tarball(t, append(releaseEntries(version), entry{name: "concourse/bin/init", mode: 0o755, body: string(noise)})...)
}

func TestDownloadResumesAfterTheConnectionIsCut(t *testing.T) {
	h, m := machine(t), newMirror(t)
	data := bigRelease(t, "8.2.5")
	m.put("8.2.5", data, true)
	m.cut[0], m.cut[1] = 200<<10, 0
	said, err := followed(h, m.from("8.2.5"))
	require.NoError(t, err)
	require.Equal(t, []string{name825 + ".sha256", name825, name825 + " bytes=204800-", name825 + " bytes=204800-"}, m.asked)
	require.Contains(t, said, "Retrying download (attempt 2/3)...")
	require.Contains(t, said, "wait 5s")
	require.Contains(t, said, "wait 10s")
}

func TestDownloadGoesOnInTheNextRun(t *testing.T) {
	h, m := machine(t), newMirror(t)
	m.put("8.2.5", bigRelease(t, "8.2.5"), true)
	m.cut[0], m.cut[1], m.cut[2] = 100<<10, 0, 0
	r := m.from("8.2.5")
	err := resourcetest.Apply(t, h, r)
	var network *NetworkError
	require.ErrorAs(t, err, &network)
	require.Equal(t, 3, network.Attempts)
	require.Contains(t, network.Error(), "attempt 3 of 3")
	hosttest.Put(t, h.Root, downloadDir+"/concourse-8.2.4-linux-amd64.tgz.part", "abandoned")
	hosttest.Put(t, h.Root, Dir+"/.unpack-8.2.5/bin/concourse", "half a release")
	next := m.from("8.2.5")
	require.NoError(t, resourcetest.Apply(t, h, next))
	require.Equal(t, name825+" bytes=102400-", m.asked[len(m.asked)-1])
	require.Empty(t, resourcetest.Ops(t, h, next))
	require.False(t, h.Exists(downloadDir))
}

func TestDownloadStartsAfreshWhenTheFileChanged(t *testing.T) {
	h, m := machine(t), newMirror(t)
	m.put("8.2.5", bigRelease(t, "8.2.5"), false)
	m.cut[0], m.cut[1], m.cut[2] = 100<<10, 0, 0
	second := bigRelease(t, "8.2.5")
	r := m.from("8.2.5")
	r.SHA256 = sumOf(second)
	require.Error(t, resourcetest.Apply(t, h, r))
	m.put("8.2.5", second, false)
	require.NoError(t, resourcetest.Apply(t, h, r), "If-Range makes the server send the whole file")
}

func TestDownloadProgressIsSparse(t *testing.T) {
	r := Install{Release: Release{Version: "8.2.5"}}
	var said []string
	receive := plan.Plan{{Do: func(ctx context.Context) error {
		have, err := r.receive(ctx, io.Discard, oneByteAtATime{bytes.NewReader(make([]byte, 1000))}, 0, 1000, func() {})
		require.EqualValues(t, 1000, have)
		return err
	}}}
	_, err := receive.Apply(t.Context(), func(text string) { said = append(said, text) })
	require.NoError(t, err)
	said = said[1:] // the step
	require.Len(t, said, 21)
	require.Equal(t, "Downloading Concourse CI 8.2.5... 0%", said[0])
	require.Equal(t, "Downloading Concourse CI 8.2.5... 100%", said[20])
}

type oneByteAtATime struct{ *bytes.Reader }

func (o oneByteAtATime) Read(p []byte) (int, error) { return o.Reader.Read(p[:1]) }

// D7: a server that sends nothing any more does not hold the hook.
func TestDownloadEndsWhenNothingComes_D7(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Write([]byte("begin"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer silent.Close()
	h := machine(t)
	r := Install{Release: Release{Version: "8.2.5", Mirror: silent.URL, Arch: "amd64", SHA256: sumOf(nil)}}
	// The deadline passes at once, but only on reads that find nothing.
	first := true
	r.after = func(d time.Duration, expire func()) func() bool {
		require.Equal(t, stallDeadline, d)
		if first {
			first = false
			return func() bool { return true }
		}
		go expire()
		first = true
		return func() bool { return true }
	}
	err := resourcetest.Apply(t, h, r)
	var network *NetworkError
	require.ErrorAs(t, err, &network)
	require.ErrorContains(t, err, "the server sent no data for 1m0s")
}

func TestMissingDownloadIsNotRetried(t *testing.T) {
	h, m := machine(t), newMirror(t)
	r := m.from("8.2.5")
	r.SHA256 = sumOf(nil)
	said, err := followed(h, r)
	var gone *notThereError
	require.ErrorAs(t, err, &gone)
	require.Contains(t, gone.Remedy(wellknown.Commands{}).String(), "404 Not Found; check version and release-mirror, or attach")
	require.Equal(t, []string{name825}, m.asked)
	require.Equal(t, []string{"Downloading Concourse CI 8.2.5..."}, said)
}

// D32: the mirror's password is in no error.
func TestDownloadErrorsHaveNoPassword_D32(t *testing.T) {
	m := newMirror(t)
	m.Close()
	for _, r := range []Release{
		{Mirror: "http://user:geheim@" + m.Listener.Addr().String()},
		{Mirror: "http://mirror.invalid", Proxy: resource.Proxies{HTTP: "http://user:geheim@" + m.Listener.Addr().String()}},
	} {
		r.Version, r.Arch = "8.2.5", "amd64"
		err := resourcetest.Apply(t, machine(t), Install{Release: r})
		require.Error(t, err)
		require.NotContains(t, fmt.Sprintf("%v %+v", err, err), "geheim")
	}
}

func TestDownloadNeverGoesFromHTTPSToHTTP(t *testing.T) {
	plain := newMirror(t)
	plain.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer secure.Close()
	r := Install{Release: Release{Version: "8.2.5", Mirror: secure.URL, Arch: "amd64", SHA256: sumOf(nil)}}
	r.client = newClient(r.Proxy)
	r.client.Transport = secure.Client().Transport
	require.ErrorContains(t, resourcetest.Apply(t, machine(t), r), "redirected from https to http")
	require.Empty(t, plain.asked)
}

func TestDownloadEndsWithItsContext(t *testing.T) {
	h, m := machine(t), newMirror(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := m.from("8.2.5")
	p, err := r.Diff(ctx, h)
	require.NoError(t, err)
	var network *NetworkError
	require.ErrorAs(t, p[0].Do(ctx), &network)
	require.Equal(t, 1, network.Attempts)
}

func TestContentRange(t *testing.T) {
	for in, want := range map[string][2]int64{"bytes 5-9/10": {5, 10}, "bytes 0-0/*": {0, -1}} {
		start, total, ok := contentRange(in)
		require.True(t, ok, in)
		require.Equal(t, want, [2]int64{start, total}, in)
	}
	for _, in := range []string{"", "bytes", "bytes 5/10", "bytes -5/10", "bytes 9-9/5", "items 1-2/3", "bytes a-b/c"} {
		_, _, ok := contentRange(in)
		require.False(t, ok, in)
	}
}

func FuzzContentRange(f *testing.F) {
	f.Add("bytes 5-9/10")
	f.Add("bytes 0-0/*")
	f.Fuzz(func(t *testing.T, s string) {
		start, total, ok := contentRange(s)
		if ok && (start < 0 || total != -1 && total <= start) {
			t.Fatal(start, total)
		}
	})
}

func TestDownloadGoesThroughTheProxy(t *testing.T) {
	data := tarball(t, releaseEntries("8.2.5")...)
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		w.Write(data)
	}))
	defer proxy.Close()
	r := Install{Release: Release{Version: "8.2.5", Mirror: "http://mirror.invalid", Arch: "amd64", SHA256: sumOf(data), Proxy: resource.Proxies{HTTP: proxy.URL}}}
	require.NoError(t, resourcetest.Apply(t, machine(t), r))
	require.Equal(t, []string{"http://mirror.invalid/v8.2.5/" + name825}, asked)
}
