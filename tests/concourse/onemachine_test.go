//go:build e2e

package concourse

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/tests/debian"
	"concourse-ci-machine/tests/standin"
)

// makeDebs downloads PostgreSQL and what it needs beside a machine's packages, and lists
// them as a repository for apt.
const makeDebs = `apt-get update >/dev/null
cd /opt/debs && apt-get install --yes --download-only -o Dir::Cache::archives=/opt/debs postgresql >/dev/null
for f in *.deb; do dpkg-deb --field "$f"; echo "Filename: ./$f"; echo "Size: $(stat -c %s "$f")"; echo "SHA256: $(sha256sum "$f" | cut -d' ' -f1)"; echo; done >Packages
rm -rf partial lock`

// postgresDebs returns a tar with PostgreSQL's packages for the machines.
func postgresDebs(ctx context.Context) (string, error) {
	base, err := debian.Base(ctx)
	if err != nil {
		return "", err
	}
	_, suite, err := debian.Mirror()
	if err != nil {
		return "", err
	}
	return debian.Cached("postgresql-"+suite+"-"+filepath.Base(base), func(out *os.File) error {
		dir, err := os.MkdirTemp("", "debs-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := os.Mkdir(filepath.Join(dir, "debs"), 0o755); err != nil {
			return err
		}
		if err := debian.Inside(ctx, base, makeDebs, nil, filepath.Join(dir, "debs")+":/opt/debs"); err != nil {
			return err
		}
		return debian.Pack(ctx, out, dir, "debs")
	})
}

// newMachine starts a machine without Juju, with the package's files.
func newMachine(t *testing.T, n int, hardware string) *unit {
	t.Helper()
	debs, err := postgresDebs(t.Context())
	require.NoError(t, err)
	return newUnitOf(t, "machine", n, hardware, "", false, func(u *unit) {
		require.NoError(t, debian.Unpack(t.Context(), debs, filepath.Join(u.Dir, "opt")))
		u.bind(filepath.Join(u.Dir, "opt", "debs"), "/opt/debs")
		write := func(path, text string) { require.NoError(t, u.Root.WriteFile(path, []byte(text), 0o644)) }
		write("/etc/apt/sources.list", "deb [trusted=yes] file:/opt/debs ./\n")
		require.NoError(t, os.RemoveAll(u.Root.Path("/etc/apt/sources.list.d")))
		require.NoError(t, command("cp", "-a", charmDir(), u.Root.Path("/usr/lib/concourse-ci-machine")))
		require.NoError(t, os.Symlink("../lib/concourse-ci-machine/dispatch", u.Root.Path("/usr/bin/concourse-ci-machine")))
		for _, name := range []string{"concourse-ci-machine.service", "concourse-ci-machine.timer"} {
			data, err := os.ReadFile("../../tools/packages/concourse-ci-machine/" + name)
			require.NoError(t, err)
			write("/usr/lib/systemd/system/"+name, string(data))
		}
	})
}

// This needs no release: a program that stands in for Concourse answers the health checks.
// Everything else is real: systemd, apt, PostgreSQL, Pebble and the exporter.
func TestOneMachineGoesUpAndIsPurged(t *testing.T) {
	need(t)
	tgz := filepath.Join(built, "stand-in-one.tgz") // where the machine sees it
	require.NoError(t, standin.Release(tgz, filepath.Join(built, "bin", "concourse")))
	u := newMachine(t, 60, "amd")
	out, err := u.run("concourse-ci-machine up --release " + tgz)
	t.Log(out)
	require.NoError(t, err)
	t.Log(u.must("concourse-ci-machine status"))
}
