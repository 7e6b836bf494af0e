package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func planned(t testing.TB, h host.Host, want ...plan.Resource) plan.Plan {
	t.Helper()
	p, err := plan.Diff(context.Background(), h, want...)
	require.NoError(t, err)
	return p
}

func applied(t testing.TB, p plan.Plan) {
	t.Helper()
	_, err := p.Apply(context.Background(), nil)
	require.NoError(t, err)
}

// withUmask does something as a process of that umask would.
func withUmask(mask int, do func() error) error {
	defer unix.Umask(unix.Umask(mask))
	return do()
}

// entry is one line of a tarball.
type entry struct {
	name, body, link string
	kind             byte // 0: a file
	mode             int64
}

func tarball(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: e.mode, Size: int64(len(e.body)), Format: tar.FormatPAX}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		require.NoError(t, tw.WriteHeader(h))
		_, err := tw.Write([]byte(e.body))
		require.NoError(t, err)
	}
	require.NoError(t, tw.Close())
	require.NoError(t, zw.Close())
	return b.Bytes()
}

// releaseEntries is the shape of a release.
func releaseEntries(version string) []entry {
	return []entry{
		{name: "concourse/", kind: tar.TypeDir, mode: 0o755},
		{name: "concourse/bin/", kind: tar.TypeDir, mode: 0o755},
		{name: "concourse/bin/concourse", mode: 0o755, body: "#!/bin/sh\necho " + version + "\n"},
		{name: "concourse/bin/containerd", mode: 0o755, body: "containerd"},
		{name: "concourse/bin/runc", mode: 0o755, body: "runc of " + version},
		{name: "concourse/resource-types/git/resource_metadata.json", body: "{}"},
		{name: "concourse/fly-assets/fly-linux-amd64.tgz", body: strings.Repeat("fly", 1000)},
	}
}

func sumOf(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// mirror serves files with ranges and ETags, on this machine only.
type mirror struct {
	*httptest.Server
	mu    sync.Mutex
	files map[string][]byte
	asked []string // "path range"
	// cut ends the answer to the n-th request of a tarball (from 0) after so
	// many bytes.
	cut map[int]int
	got int
}

func newMirror(t testing.TB) *mirror {
	m := &mirror{files: map[string][]byte{}, cut: map[int]int{}}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

func (m *mirror) put(version string, data []byte, withSum bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := fmt.Sprintf("concourse-%s-linux-amd64.tgz", version)
	m.files["/v"+version+"/"+name] = data
	if withSum {
		m.files["/v"+version+"/"+name+".sha256"] = []byte(sumOf(data) + "  " + name + "\n")
	}
}

func (m *mirror) serve(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, strings.TrimSpace(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]+" "+r.Header.Get("Range")))
	data, ok := m.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Etag", `"`+sumOf(data)[:8]+`"`)
	if strings.HasSuffix(r.URL.Path, ".tgz") {
		after, cut := m.cut[m.got]
		m.got++
		if cut && after == 0 {
			panic(http.ErrAbortHandler) // without any answer
		}
		if cut {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			w.Write(data[:after])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// from is a release of the mirror.
func (m *mirror) from(version string) Install {
	return Install{Release: Release{Version: version, Mirror: m.URL, Arch: "amd64"}}
}

// followed applies and returns what was said on the way, without the names of steps,
// and the waits.
func followed(h host.Host, r Install) (said []string, err error) {
	h.Clock = hosttest.Clock{T: hosttest.Now, Slept: func(d time.Duration) { said = append(said, "wait "+d.String()) }}
	p, err := plan.Diff(context.Background(), h, r)
	if err == nil {
		_, err = p.Apply(context.Background(), func(text string) {
			if !strings.ContainsAny(text[:1], "123456789") {
				said = append(said, text)
			}
		})
	}
	return said, err
}

// machine is a throwaway root on which commands run for real, the release's
// concourse a script.
func machine(t testing.TB) host.Host {
	h := hosttest.Real(t)
	require.NoError(t, h.MkdirAll(Dir, 0o755))
	return h
}
