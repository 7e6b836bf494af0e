package release

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

// D36: what a tarball tries beyond its own folder is refused by name.
func TestHostileEntriesAreRefused_D36(t *testing.T) {
	for name, tc := range map[string]struct {
		entries []entry
		want    string
	}{
		"absolute path":        {[]entry{{name: "/etc/passwd", body: "x"}}, "not below concourse/"},
		"parent folder":        {[]entry{{name: "concourse/../../x", body: "x"}}, "not below concourse/"},
		"parent that cancels":  {[]entry{{name: "concourse/a/../b", body: "x"}}, "not below concourse/"},
		"another folder":       {[]entry{{name: "other/x", body: "x"}}, "not below concourse/"},
		"absolute link":        {[]entry{{name: "concourse/x", link: "/etc/passwd", kind: tar.TypeSymlink}}, "leads out"},
		"relative link":        {[]entry{{name: "concourse/bin/x", link: "../../y", kind: tar.TypeSymlink}}, "leads out"},
		"hard link":            {[]entry{{name: "concourse/x", link: "/etc/passwd", kind: tar.TypeLink}}, "leads out"},
		"hard link by parents": {[]entry{{name: "concourse/x", link: "../etc/passwd", kind: tar.TypeLink}}, "leads out"},
		"hard link to a link": {[]entry{
			{name: "concourse/a/b/l", link: "../../y", kind: tar.TypeSymlink},
			{name: "concourse/l", link: "concourse/a/b/l", kind: tar.TypeLink},
		}, "leads out"},
		"hard link to nothing":  {[]entry{{name: "concourse/x", link: "concourse/y", kind: tar.TypeLink}}, "can't be unpacked"},
		"device":                {[]entry{{name: "concourse/x", kind: tar.TypeChar}}, "neither file, folder nor link"},
		"fifo":                  {[]entry{{name: "concourse/x", kind: tar.TypeFifo}}, "neither file, folder nor link"},
		"same file twice":       {[]entry{{name: "concourse/x", body: "a"}, {name: "concourse/x", body: "b"}}, "can't be unpacked"},
		"file where folder was": {[]entry{{name: "concourse/x", body: "a"}, {name: "concourse/x/y", body: "b"}}, "can't be unpacked"},
		"links that together lead out": {[]entry{
			{name: "concourse/a/", kind: tar.TypeDir},
			{name: "concourse/d", link: "a", kind: tar.TypeSymlink},
			{name: "concourse/a/up", link: "../d/..", kind: tar.TypeSymlink},
			{name: "concourse/e", link: "a/up/../..", kind: tar.TypeSymlink},
		}, "leads out"},
		"writing through a link": {[]entry{
			{name: "concourse/d", link: "e", kind: tar.TypeSymlink},
			{name: "concourse/d", body: "x"},
		}, "can't be unpacked"},
	} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			dir := filepath.Join(outer, "in", "dir")
			require.NoError(t, os.MkdirAll(dir, 0o755))
			err := untar(context.Background(), dir, bytes.NewReader(tarball(t, tc.entries...)), releaseLimits)
			var bad problem
			require.ErrorAs(t, err, &bad)
			require.ErrorContains(t, err, tc.want)
			require.NoFileExists(t, filepath.Join(outer, "y"))
			require.NoFileExists(t, filepath.Join(outer, "in", "x"))
		})
	}
}

func TestUntarDropsSpecialModesAndKeepsValidLinks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, untar(context.Background(), dir, bytes.NewReader(tarball(t,
		entry{name: "./concourse/bin/a", body: "a", mode: 0o4777},
		entry{name: "concourse/secret", body: "s", mode: 0o666},
		entry{name: "concourse/bin/b", link: "a", kind: tar.TypeSymlink},
		entry{name: "concourse/bin/c", link: "concourse/bin/a", kind: tar.TypeLink},
	)), releaseLimits))
	for name, mode := range map[string]fs.FileMode{"bin/a": 0o755, "secret": 0o644, "bin/b": 0o755, "bin/c": 0o755} {
		st, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode(), name)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestNoProcessStartsWhileAProgramIsWritten(t *testing.T) {
	body := make([]byte, 1<<20)
	rand.Read(body)
	dir, looks := t.TempDir(), 0
	from := bytes.NewReader(tarball(t, entry{name: "concourse/bin/a", body: string(body), mode: 0o755}))
	require.NoError(t, untar(context.Background(), dir, readerFunc(func(p []byte) (int, error) {
		if st, err := os.Stat(filepath.Join(dir, "bin/a")); err == nil && st.Size() < int64(len(body)) {
			looks++
			require.False(t, syscall.ForkLock.TryLock())
		}
		return from.Read(p)
	}), releaseLimits))
	require.Positive(t, looks)
}

func TestUntarIsBounded(t *testing.T) {
	data := tarball(t, releaseEntries("8.2.5")...)
	for _, max := range []limits{{entries: 3, bytes: 1 << 20}, {entries: 100, bytes: 1000}} {
		require.ErrorContains(t, untar(context.Background(), t.TempDir(), bytes.NewReader(data), max), "more files or bytes")
	}
}

func TestTruncatedOrDamagedTarballIsRefused(t *testing.T) {
	data := tarball(t, releaseEntries("8.2.5")...)
	flipped := bytes.Clone(data)
	flipped[len(data)-6] ^= 1 // the gzip stream's own sum
	for name, data := range map[string][]byte{
		"no tarball": []byte("<html>"), "empty": {}, "half": data[:len(data)/2], "without its end": data[:len(data)-4], "sum differs": flipped,
	} {
		var bad problem
		require.ErrorAs(t, untar(context.Background(), t.TempDir(), bytes.NewReader(data), releaseLimits), &bad, name)
	}
}

func TestReleaseThatCanNotRunIsRefused(t *testing.T) {
	without := func(name string) []entry {
		var out []entry
		for _, e := range releaseEntries("8.2.5") {
			if e.name != "concourse/"+name {
				out = append(out, e)
			}
		}
		return out
	}
	replaced := func(body string, mode int64) []entry {
		return append(without("bin/concourse"), entry{name: "concourse/bin/concourse", mode: mode, body: body})
	}
	for name, tc := range map[string]struct {
		entries []entry
		want    string
	}{
		"no runc":              {without("bin/runc"), "bin/runc is missing or not executable"},
		"not executable":       {replaced("#!/bin/sh\necho 8.2.5\n", 0o644), "bin/concourse is missing or not executable"},
		"fails":                {replaced("#!/bin/sh\necho no such luck >&2; exit 3\n", 0o755), "does not run on this machine: no such luck"},
		"another architecture": {replaced("\x7fELF", 0o755), "does not run on this machine"},
		"prints no version":    {replaced("#!/bin/sh\necho dev\n", 0o755), "prints no version"},
	} {
		t.Run(name, func(t *testing.T) {
			h := machine(t)
			err := resourcetest.Apply(t, h, Install{Release: Release{Resource: attach(t, tarball(t, tc.entries...)), Arch: "amd64"}})
			var bad *badReleaseError
			require.ErrorAs(t, err, &bad)
			require.ErrorContains(t, err, tc.want)
			found, gerr := h.Glob(Dir + "/*")
			require.NoError(t, gerr)
			require.Empty(t, found)
		})
	}
}

func FuzzUntar(f *testing.F) {
	f.Add(tarball(f, releaseEntries("8.2.5")...))
	f.Add(tarball(f, entry{name: "concourse/x", link: "../../y", kind: tar.TypeSymlink}))
	f.Fuzz(func(t *testing.T, data []byte) {
		outer := t.TempDir()
		dir := filepath.Join(outer, "dir")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_ = untar(context.Background(), dir, bytes.NewReader(data), limits{entries: 50, bytes: 1 << 20})
		left, err := os.ReadDir(outer)
		if err != nil || len(left) != 1 {
			t.Fatal("something was written outside", left, err)
		}
	})
}
