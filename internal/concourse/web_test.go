package concourse

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

func TestWebUnit(t *testing.T) {
	unit, err := WebUnitFileFor(HomeWebFiles(), []string{"--enable-across-step", "--base-resource-type-defaults=/etc/a b.yml"})
	require.NoError(t, err)
	require.Equal(t, "/etc/systemd/system/concourse-server.service", unit.Path)
	require.Equal(t, os.FileMode(0o644), unit.Mode)
	hosttest.Golden(t, "testdata/concourse-server.service", string(unit.Data))
	require.Contains(t, string(unit.Data), "\n[Install]\nWantedBy=multi-user.target\n", "D21: it can be enabled")
}

// On shared storage the web keeps its keys and its environment to itself.
func TestWebOnSharedStorageHasAFolderOfItsOwn_D10_D11(t *testing.T) {
	unit, err := WebUnitFileFor(SeparateWebFiles(), nil)
	require.NoError(t, err)
	require.Contains(t, string(unit.Data), "\nEnvironmentFile=-/var/lib/concourse-web/config.env\nEnvironmentFile=-/etc/default/concourse\n")
	require.Contains(t, string(unit.Data), "\nWorkingDirectory=/var/lib/concourse-web\n")
	p := SeparateWebFiles()
	for _, file := range []string{p.Env(), p.TSAHostKey(), p.TSAHostKeyPublic(), p.SessionKey(), p.AuthorizedKeys(), p.DatabaseCA(), p.TLSCert(), p.TLSKey(), p.VaultCA()} {
		require.True(t, strings.HasPrefix(file, "/var/lib/concourse-web/"), file)
	}
}

// D28: a word of extra-web-flags is one word of the command line and nothing more.
func TestWebFlagsAreTakenLiterally_D28(t *testing.T) {
	for word, want := range map[string]string{
		`--a=b`:         `"--a=b"`,
		`a b`:           `"a b"`,
		`a"b`:           `"a\"b"`,
		`a\nb`:          `"a\\nb"`,
		`100%h`:         `"100%%h"`,
		`$PATH ${HOME}`: `"$$PATH $${HOME}"`,
		`;`:             `";"`,
		``:              `""`,
		`ö`:             `"ö"`,
	} {
		got, err := quoteUnitWord(word)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{"a\nExecStartPre=/bin/sh", "\x00", "a\r", "\xff", "\u0085"} {
		_, err := WebUnitFileFor(HomeWebFiles(), []string{bad})
		require.ErrorContains(t, err, "cannot pass a flag to the web", "%q", bad)
	}
}

func TestSystemdUnderstandsTheWebUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed: the unit's syntax was not checked")
	}
	unit, err := WebUnitFileFor(HomeWebFiles(), []string{`--x=a "b" \ 100% $HOME`, ";", "end"})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), WebUnit)
	text := strings.NewReplacer(release.BinDir+"/concourse", "/bin/true", "WorkingDirectory="+release.HomeDir, "WorkingDirectory=/",
		"User=concourse", "User=root").Replace(string(unit.Data))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", file).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		require.NotContains(t, line, WebUnit, "systemd-analyze: %s", out)
	}
	require.NoError(t, err, "systemd-analyze: %s", out)
}

// systemd looks for the program of a unit, so a program of an odd name reports whether it
// reads a quoted word as that word; if it refuses such a name it reports how it read it. ($
// is left out: systemd expands no variable in the program's own name.)
func TestSystemdReadsAQuotedWordAsItIs_D28(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed: systemd's reading was not checked")
	}
	dir := t.TempDir()
	verify := func(word string) string {
		file := filepath.Join(dir, "odd.service")
		require.NoError(t, os.WriteFile(file, []byte("[Service]\nExecStart="+word+" end\n"), 0o644))
		out, _ := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", file).CombinedOutput()
		return string(out)
	}
	require.Contains(t, verify(filepath.Join(dir, "missing")), "missing", "it complains of what is not there")
	for _, name := range []string{"a b", `a"b`, `a\nb`, "100%h", "a;b", "ö", `\`, "'"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
		word, err := quoteUnitWord(path)
		require.NoError(t, err)
		if strings.ContainsAny(name, `"\'`) {
			require.Contains(t, verify(word), "special characters: "+path+"\n")
			continue
		}
		require.NotContains(t, verify(word), "odd.service", name)
	}
}

func TestWebFoldersBelongToTheirUsers_D11(t *testing.T) {
	for _, shared := range []bool{false, true} {
		h := hosttest.Real(t)
		p := WebFiles(shared)
		run := hosttest.NewRunner(t).On("useradd", hosttest.Useradd(h.Root))
		h.Runner = run
		// The user first, as a folder can't be given to one that is not there.
		want := append([]plan.Resource{resource.User{Name: WebUser, Home: release.HomeDir}}, p.Folders()...)
		require.NoError(t, h.MkdirAll(release.HomeDir, 0o755))
		require.NoError(t, os.Chmod(h.Path(release.HomeDir), 0o777)) // as the host's script leaves a shared one
		require.NoError(t, resourcetest.Apply(t, h, want...))
		require.Empty(t, resourcetest.Ops(t, h, want...))
		st, err := h.Stat(release.HomeDir)
		require.NoError(t, err)
		require.Equal(t, map[bool]os.FileMode{true: 0o777, false: 0o755}[shared], st.Mode().Perm())
		st, err = h.Stat(p.KeyDir())
		require.NoError(t, err)
		require.Equal(t, os.ModeDir|0o700, st.Mode())
	}
}
