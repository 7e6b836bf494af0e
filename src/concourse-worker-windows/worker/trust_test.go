//go:build !windows

package worker

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// plant writes a file of the worker before there is a worker.
func (m *fakeMachine) plant(t *testing.T, name string, data []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(m.at(name)), 0o700))
	require.NoError(t, os.WriteFile(m.at(name), data, 0o600))
}

func settingsOf(t *testing.T, change func(s *Settings)) []byte {
	t.Helper()
	s := validSettings()
	change(&s)
	data, err := json.Marshal(s)
	require.NoError(t, err)
	return data
}

func TestFirstInstallationReadsNoOldSettings(t *testing.T) {
	m := newMachine(t)
	m.plant(t, "settings.json", settingsOf(t, func(s *Settings) { s.Account, s.TSAHost = LocalSystem, "6.6.6.6:2222" }))
	exit, _, errs := m.run("install", "--offline", "--concourse", filepath.Join(m.dir, "concourse.exe"))
	require.Equal(t, 1, exit)
	require.Contains(t, errs, "--tsa-host is missing")
	exit, _, errs = m.install()
	require.Zero(t, exit, errs)
	require.Equal(t, DefaultAccount, m.service.Account)
}

func TestFilesOfAnotherUserAreRefused(t *testing.T) {
	for _, name := range []string{"", "keys", "log", "keys/worker_key"} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.plant(t, "keys/worker_key", []byte("planted"))
			require.NoError(t, os.MkdirAll(m.at("log"), 0o700))
			before := m.files(t)
			m.foreign = m.at(name)
			exit, _, errs := m.install()
			require.Equal(t, 1, exit)
			require.Contains(t, errs, m.at(name)+" belongs to somebody")
			require.False(t, m.service.Installed)
			require.Subset(t, m.files(t), before)
		})
	}
}

func TestKeptKeyIsUsedAgain(t *testing.T) {
	m := newMachine(t)
	exit, _, errs := m.install()
	require.Zero(t, exit, errs)
	key, err := os.ReadFile(m.at("keys/worker_key"))
	require.NoError(t, err)
	exit, _, errs = m.run("uninstall", "--keep-key", "--drain", "0s")
	require.Zero(t, exit, errs)
	require.Contains(t, errs, "builds still run after 0s and are ended")
	exit, _, errs = m.install()
	require.Zero(t, exit, errs)
	again, err := os.ReadFile(m.at("keys/worker_key"))
	require.NoError(t, err)
	require.Equal(t, key, again)
}

func TestUninstallRemovesNoFolderOfPlantedOrInvalidSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		settings []byte
		foreign  string
	}{
		"of another user":      {settingsOf(t, func(s *Settings) { s.WorkDir = `C:\data` }), "settings.json"},
		"in another's folder":  {settingsOf(t, func(s *Settings) { s.WorkDir = `C:\data` }), ""},
		"with an invalid name": {settingsOf(t, func(s *Settings) { s.WorkDir, s.Name = `C:\data`, "a b" }), "none"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			t.Chdir(t.TempDir())
			require.NoError(t, os.Mkdir(`C:\data`, 0o700))
			m.plant(t, "settings.json", tc.settings)
			m.foreign = m.at(tc.foreign)
			exit, _, errs := m.run("uninstall")
			require.Zero(t, exit, errs)
			require.Contains(t, errs, "cannot read the settings, so the work folder stays")
			require.DirExists(t, `C:\data`)
		})
	}
}

func TestWorkFolderWithOtherFilesIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		folders []string
		file    string
		refused string
	}{
		"missing":        {},
		"empty":          {folders: []string{""}},
		"kept":           {folders: []string{"volumes", "containers", "tmp", "cache"}},
		"other file":     {folders: []string{"volumes"}, file: "thesis.docx", refused: "thesis.docx"},
		"other folder":   {folders: []string{"Public", "volumes"}, refused: "Public"},
		"build folder":   {folders: []string{"cache", "tmp"}, refused: "cache"},
		"file of a name": {folders: []string{"volumes"}, file: "tmp", refused: "tmp"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			t.Chdir(t.TempDir())
			const work = `D:\data`
			for _, f := range tc.folders {
				require.NoError(t, os.MkdirAll(filepath.Join(work, f), 0o700))
			}
			if tc.file != "" {
				require.NoError(t, os.WriteFile(filepath.Join(work, tc.file), nil, 0o600))
			}
			check := func(args ...string) {
				exit, _, errs := m.install(args...)
				if tc.refused == "" {
					require.Zero(t, exit, errs)
					return
				}
				require.Equal(t, 1, exit)
				require.Contains(t, errs, `--work-dir D:\data has other files, such as `+tc.refused+
					"; name a new or empty folder, because uninstall removes it")
			}
			check("--work-dir", work, "--dry-run")
			exit, _, errs := m.install() // with the default folder
			require.Zero(t, exit, errs)
			check("--work-dir", work)
			if tc.refused == "" { // the worker fills its folder
				require.NoError(t, os.MkdirAll(filepath.Join(work, "anything"), 0o700))
				check("--work-dir", `d:\data`)
			}
		})
	}
}

func TestFailedUpgradeStartsTheServiceAgain(t *testing.T) {
	m := newMachine(t)
	exit, _, errs := m.install()
	require.Zero(t, exit, errs)
	exit, out, errs := m.run("install", "--offline", "--concourse", filepath.Join(m.dir, "missing.zip"))
	require.Equal(t, 1, exit)
	require.Contains(t, errs, "missing.zip")
	require.Contains(t, out, "start service concourse-worker again\n")
	require.True(t, m.service.Running && m.service.Installed && m.right)
	require.FileExists(t, m.at("keys/worker_key"))

	m.fails = "start"
	exit, _, errs = m.run("install", "--offline")
	require.Equal(t, 1, exit)
	require.Contains(t, errs, "cannot start service concourse-worker again: broken")
	require.True(t, m.service.Installed && m.right, "an upgrade removes nothing")

	m.fails, m.service.Running = "", false
	exit, out, _ = m.run("install", "--offline", "--concourse", filepath.Join(m.dir, "missing.zip"))
	require.Equal(t, 1, exit)
	require.NotContains(t, out, "again", "it did not run before")
	require.False(t, m.service.Running)
}

func TestMissingRightsNameTheFix(t *testing.T) {
	m := newMachine(t)
	exit, _, errs := m.install()
	require.Zero(t, exit, errs)
	m.denied = fs.ErrPermission
	for _, args := range [][]string{{"status"}, {"check", "--offline"}, {"install", "--offline", "--dry-run"}, {"uninstall", "--dry-run"}} {
		_, out, errs := m.run(args...)
		require.Contains(t, out+errs, `permission denied; open PowerShell with "Run as administrator"`, "%v", args)
	}
}
