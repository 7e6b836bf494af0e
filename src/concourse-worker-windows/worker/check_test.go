//go:build !windows

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRequirementsAtTheirLimits(t *testing.T) {
	level := func(row string, change func(*Facts)) Level {
		f, g := ready()
		change(&f)
		for _, r := range machineRows(f, g) {
			if r.Name == row {
				return r.Level
			}
		}
		return ""
	}
	for build, want := range map[int]Level{22620: Failed, 22621: OK} {
		require.Equal(t, want, level("Windows", func(f *Facts) { f.Build = build }), build)
	}
	require.Equal(t, Warning, level("memory", func(f *Facts) { f.Memory = 31e9 - 1 }))
	require.Equal(t, OK, level("memory", func(f *Facts) { f.Memory = 31e9 }))
	require.Equal(t, Warning, level("disk", func(f *Facts) { f.Disk.Total = 195e9 - 1 }))
	require.Equal(t, OK, level("disk", func(f *Facts) { f.Disk.Total = 195e9 }))
	require.Equal(t, Failed, level("disk", func(f *Facts) { f.Disk.Free = 20e9 - 1 }))
	require.Equal(t, OK, level("disk", func(f *Facts) { f.Disk.Free = 20e9 }))
	for version, want := range map[string]Level{"3.9.99": Failed, "3.10": OK, "3.10.0": OK, "4.0": OK} {
		require.Equal(t, want, level("Python", func(f *Facts) { f.Tools["Python"] = Tool{"p", version} }), version)
	}
}

func TestVersionsAreComparedByTheirNumbers(t *testing.T) {
	for _, c := range []struct {
		version, min string
		want         bool
	}{{"3.10", "3.9", true}, {"3.9", "3.10", false}, {"3.10", "3.10", true}, {"2.51.0.windows.1", "2.30", true}, {"", "1", false},
		{"3.26-rc", "3.26", true}, {"2", "2.0", false}} {
		require.Equal(t, c.want, newer(c.version, c.min), "%+v", c)
	}
}

func TestInstanceOfVisualStudioIsRead(t *testing.T) {
	tool, err := parseInstance([]byte(`{"installationPath":"C:\\VS","installationVersion":"17.14.9"}`))
	require.NoError(t, err)
	require.Equal(t, Tool{`C:\VS`, "17.14.9"}, tool)
	_, err = parseInstance([]byte("{"))
	require.Error(t, err)
}

// The state of an earlier process of the service shows nothing of this one.
func TestStateOfAnotherProcessIsNotShown(t *testing.T) {
	m := newMachine(t)
	st, err := statusOf(m)
	require.NoError(t, err)
	require.Contains(t, st.Problem, "not installed; run: ")
	exit, _, errs := m.install()
	require.Zero(t, exit, errs)
	p, err := pathsOf(m)
	require.NoError(t, err)
	data, err := json.Marshal(State{Service: 7, PID: 8, Starts: 2, Problem: "no route", Tags: []string{"gfx1201", "windows"}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(p.state(), data, 0o600))
	for pid, shown := range map[int]bool{6: false, 7: true, 8: false} {
		m.service.PID = pid
		st, err := statusOf(m)
		require.NoError(t, err)
		require.Equal(t, shown, st.State != nil, pid)
		require.Equal(t, shown, st.Problem == "no route", pid)
		text := st.text(time.Now())
		require.Contains(t, text, "public key    ssh-rsa ")
		require.Equal(t, shown, strings.Contains(text, "tags          gfx1201, windows"), text)
	}
	m.service.PID, m.service.Running = 6, false
	st, err = statusOf(m)
	require.NoError(t, err)
	require.Contains(t, st.Problem, "the service does not run; run: sc.exe start ")
	require.NoError(t, os.WriteFile(p.state(), []byte("{"), 0o600))
	st, err = statusOf(m)
	require.NoError(t, err)
	require.Contains(t, st.Problem, "cannot read the state of the service: ")
	require.NoError(t, os.Remove(p.state()))
	m.service.Running = true
	st, err = statusOf(m)
	require.NoError(t, err)
	require.Empty(t, st.Problem, "it has written none yet")
}

func TestCheckTriesTheInstalledWorker(t *testing.T) {
	s := validSettings()
	st := Status{Service: Service{Installed: true, Running: true, Automatic: true, State: "running", Account: DefaultAccount},
		Settings: &s, State: &State{Account: DefaultAccount}, PublicKey: "ssh-rsa AAAA box"}
	row := func(name string, err error) Row {
		for _, r := range workerRows(st, func(Settings) error { return err }) {
			if r.Name == name {
				return r
			}
		}
		return Row{}
	}
	require.Equal(t, OK, row("web", nil).Level)
	require.Contains(t, row("web", errKeyRefused).Fix, "extra-worker-keys of the web: ssh-rsa AAAA box")
	require.Equal(t, "Test-NetConnection 10.0.0.10 -Port 2222", row("web", errors.New("x")).Fix)
	require.Equal(t, OK, row("account", nil).Level)
	st.State.LinkProblem = "A required privilege is not held"
	require.Equal(t, Failed, row("account", nil).Level)
	st.State.LinkProblem, st.State.HIPProblem = "", "Access is denied"
	require.Contains(t, row("account", nil).Fix, "icacls")
	st.State.OverLimit = true
	require.Equal(t, Warning, row("work folder", nil).Level)
	require.Equal(t, OK, row("service", nil).Level)
	st.Service.Automatic = false
	require.Equal(t, Warning, row("service", nil).Level)
	require.Equal(t, []Row{{Name: "service", Level: Warning, Text: "not installed", Fix: "concourse-worker-windows install --help"}}, workerRows(Status{}, nil))
}

func TestHostsAreRequestedAtOnce(t *testing.T) {
	rows := hostRows([]string{"a", "b"}, func(url string) error {
		if url == "https://b/" {
			return fmt.Errorf("no route to %s", url)
		}
		return nil
	})
	require.Equal(t, []Row{{Name: "host", Level: OK, Text: "a"},
		{Name: "host", Level: Failed, Text: "no route to https://b/", Fix: "Test-NetConnection b -Port 443"}}, rows)
}

func FuzzParseInstance(f *testing.F) {
	f.Add([]byte(`{"installationPath":"C:\\VS","installationVersion":"17.14.9"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if tool, err := parseInstance(data); err == nil {
			_ = newer(tool.Version, "17.0")
		}
	})
}
