//go:build !windows

package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// fakeMachine keeps files in a folder, and notes every other change.
type fakeMachine struct {
	Machine
	dir      string
	service  Service
	right    bool
	fails    string // the change that fails
	gpus     []GPU
	facts    Facts
	foreign  string // a path that another user owns
	denied   error
	notAdmin error
	output   error
	events   []string
	started  []Command
}

func (m *fakeMachine) fail(change string) error {
	if m.fails == change {
		return errors.New("broken")
	}
	return nil
}

func (m *fakeMachine) Folders() (string, string, error) {
	return filepath.Join(m.dir, "programs"), filepath.Join(m.dir, "data"), nil
}
func (m *fakeMachine) HostName() (string, error)      { return "RDNA4-BOX", nil }
func (m *fakeMachine) CheckAdmin() error              { return m.notAdmin }
func (m *fakeMachine) SelfPath() (string, error)      { return filepath.Join(m.dir, "self.exe"), nil }
func (m *fakeMachine) Service() (Service, error)      { return m.service, nil }
func (m *fakeMachine) GPUs() ([]GPU, error)           { return m.gpus, nil }
func (m *fakeMachine) Facts(string) Facts             { return m.facts }
func (m *fakeMachine) Output(Command) (string, error) { return "no route\n", m.output }

func (m *fakeMachine) CheckOwner(path string) error {
	if _, err := os.Lstat(path); err != nil {
		return err
	}
	if m.foreign == path {
		return fmt.Errorf("%s belongs to somebody", path)
	}
	return m.denied
}

func (m *fakeMachine) MakeFolder(path string, _ Access, _ string) error {
	if err := m.CheckOwner(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if strings.HasPrefix(path, `C:\`) { // the work folder
		return m.fail("work")
	}
	return os.MkdirAll(path, 0o755)
}

func (m *fakeMachine) WriteFile(path string, from io.Reader, _ Access, _ string) error {
	data, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

func (m *fakeMachine) SetService(s ServiceSpec) error {
	if err := m.fail("service"); err != nil {
		return err
	}
	m.service.Installed, m.service.Account, m.service.Automatic = true, s.Account, true
	return nil
}

func (m *fakeMachine) StartService() error {
	if err := m.fail("start"); err != nil {
		return err
	}
	m.service.Running, m.service.State = true, "running"
	return nil
}

func (m *fakeMachine) at(name string) string {
	return filepath.Join(m.dir, "data/concourse-worker", name)
}

func (m *fakeMachine) StopService(time.Duration) error {
	m.service.Running, m.service.State = false, "stopped"
	return nil
}

func (m *fakeMachine) RemoveService() error {
	m.service = Service{}
	return nil
}

func (m *fakeMachine) SetLinkRight(_ string, granted bool) error {
	m.right = granted
	return nil
}

func (m *fakeMachine) RunService(run func(context.Context) error) error {
	return run(context.Background())
}

// files lists the files of the machine with their sizes.
func (m *fakeMachine) files(t *testing.T) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			name, _ := filepath.Rel(m.dir, path)
			all = append(all, name)
		}
		return err
	}))
	return all
}

func newMachine(t *testing.T) *fakeMachine {
	m := &fakeMachine{dir: t.TempDir()}
	_, public := hosttest.Key("tsa")
	for name, text := range map[string]string{"self.exe": "self", "concourse.exe": "concourse", "tsa.pub": public} {
		require.NoError(t, os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600))
	}
	for _, name := range []string{"programs", "data"} {
		require.NoError(t, os.Mkdir(filepath.Join(m.dir, name), 0o755))
	}
	return m
}

func (m *fakeMachine) run(args ...string) (exit int, out, errs string) {
	var stdout, stderr bytes.Buffer
	exit = Main(args, m, &stdout, &stderr)
	return exit, stdout.String(), stderr.String()
}

func (m *fakeMachine) install(more ...string) (exit int, out, errs string) {
	return m.run(append([]string{"install", "--offline", "--concourse", filepath.Join(m.dir, "concourse.exe"), "--tsa-host", "10.0.0.10:2222",
		"--tsa-public-key", filepath.Join(m.dir, "tsa.pub")}, more...)...)
}

func TestUninstallRevertsInstall(t *testing.T) {
	m := newMachine(t)
	before := m.files(t)
	exit, out, errs := m.install("--dry-run")
	require.Zero(t, exit, errs)
	require.Contains(t, out, "start service concourse-worker")
	require.Equal(t, before, m.files(t), "a dry run changes nothing")

	exit, out, errs = m.install()
	require.Zero(t, exit, errs)
	require.Contains(t, out, "juju config web extra-worker-keys=@keys.txt")
	require.Contains(t, out, " rdna4-box\n")
	require.True(t, m.service.Running && m.right)
	exit, out, errs = m.run("status")
	require.Zero(t, exit, out+errs)
	require.Contains(t, out, "rdna4-box at 10.0.0.10:2222")
	key, err := os.ReadFile(filepath.Join(m.dir, "data/concourse-worker/keys/worker_key"))
	require.NoError(t, err)

	exit, _, errs = m.run("install", "--offline", "--tag", "studio")
	require.Zero(t, exit, errs)
	again, err := os.ReadFile(filepath.Join(m.dir, "data/concourse-worker/keys/worker_key"))
	require.NoError(t, err)
	require.Equal(t, key, again)
	settings, err := os.ReadFile(filepath.Join(m.dir, "data/concourse-worker/settings.json"))
	require.NoError(t, err)
	require.Contains(t, string(settings), "studio")

	m.output = errors.New("exit status 1")
	exit, _, errs = m.run("uninstall")
	require.Zero(t, exit)
	require.Contains(t, errs, "no route; run on the web: juju run web/leader prune-worker worker=rdna4-box")
	require.Equal(t, before, m.files(t))
	require.False(t, m.service.Installed || m.right)
}

// A later step may need what an earlier one made, so the last one is reverted first. A revert
// that fails does not end the others.
func TestFinishedStepsAreRevertedFromTheLast(t *testing.T) {
	var log, out strings.Builder
	do := func(name string, fails bool) func() error {
		return func() error {
			log.WriteString(name + " ")
			if fails {
				return errors.New(name + " is broken")
			}
			return nil
		}
	}
	undo := func(name string, fails bool) *step { return &step{op: "undo " + name, do: do("-"+name, fails)} }
	err := apply([]step{
		{"a", do("a", false), undo("a", false)},
		{"b", do("b", false), nil},
		{"c", do("c", false), undo("c", true)},
		{"d", do("d", true), undo("d", false)},
		{"e", do("e", false), undo("e", false)},
	}, &out)
	require.EqualError(t, err, "cannot d: d is broken\ncannot undo c: -c is broken")
	require.Equal(t, "a b c d -c -a ", log.String())
	require.Equal(t, "  a\n  b\n  c\n  d\n  undo c\n  undo a\n", out.String())
}

func TestFailedInstallationLeavesNothing(t *testing.T) {
	for _, fails := range []string{"work", "service", "start"} {
		t.Run(fails, func(t *testing.T) {
			m := newMachine(t)
			before := m.files(t)
			m.fails = fails
			exit, _, errs := m.install()
			require.Equal(t, 1, exit)
			require.Contains(t, errs, "broken")
			require.Equal(t, before, m.files(t))
			require.False(t, m.service.Installed || m.right)
		})
	}
}

func TestRemovalKeepsWhatIsAskedFor(t *testing.T) {
	m := newMachine(t)
	exit, _, errs := m.install("--no-start")
	require.Zero(t, exit, errs)
	require.False(t, m.service.Running)
	exit, out, errs := m.run("uninstall", "--keep-key", "--keep-work", "--dry-run")
	require.Zero(t, exit, errs)
	require.NotContains(t, out, `C:\concourse`)
	exit, _, errs = m.run("uninstall", "--keep-key")
	require.Zero(t, exit, errs)
	require.FileExists(t, filepath.Join(m.dir, "data/concourse-worker/keys/worker_key"))
	require.NoFileExists(t, filepath.Join(m.dir, "data/concourse-worker/settings.json"))
}

func TestWrongCommandLinesNameTheHelp(t *testing.T) {
	m := newMachine(t)
	for args, want := range map[string]string{
		"":                     "want one of check, install, status, uninstall; see concourse-worker-windows --help",
		"instal":               `cannot run concourse-worker-windows "instal": no such command; did you mean install?`,
		"install --tsa-hots x": "did you mean --tsa-host?; see concourse-worker-windows install --help",
		"status x":             `cannot run concourse-worker-windows status with "x": want concourse-worker-windows status [flags]; see`,
		"uninstall --drain=x":  "--drain",
	} {
		exit, _, errs := m.run(strings.Fields(args)...)
		require.Equal(t, 2, exit, args)
		require.Contains(t, errs, want)
	}
	for _, command := range []string{"install", "uninstall", "status", "check"} {
		exit, out, _ := m.run(command, "--help")
		require.Zero(t, exit)
		require.Contains(t, out, "Usage: concourse-worker-windows "+command)
		for line := range strings.Lines(out) {
			require.LessOrEqual(t, len(line), 81, line)
		}
	}
	exit, _, errs := m.run("install", "--offline")
	require.Equal(t, 1, exit)
	require.Contains(t, errs, "cannot install: --concourse is missing")
	m.notAdmin = errors.New("open PowerShell as administrator")
	exit, _, errs = m.install()
	require.Equal(t, 1, exit)
	require.Contains(t, errs, "open PowerShell as administrator")
}

func TestOtherSystemsOnlyHaveHelp(t *testing.T) {
	var out bytes.Buffer
	require.Zero(t, Main([]string{"--help"}, ThisMachine(), &out, &out))
	require.Equal(t, 1, Main([]string{"check"}, ThisMachine(), &out, &out))
	require.Contains(t, out.String(), "this program is for Windows")
}

// ready has a machine that meets every requirement.
func ready() (Facts, []GPU) {
	rotates := false
	f := Facts{Build: 26100, Product: "Windows 11 Pro", Memory: 64e9, Disk: Disk{Total: 1e12, Free: 5e11, Rotates: &rotates}, LongPaths: true,
		Runtime: Tool{"amdhip64_7.dll", "7.0.0.0"}, HIP: []Tool{{`C:\Program Files\AMD\ROCm\7.1`, "7.1"}}, Tools: map[string]Tool{}}
	for _, t := range requiredTools() {
		f.Tools[t.name] = Tool{"x", t.version}
	}
	return f, []GPU{{Device: 0x7551, Name: "AMD Radeon AI PRO R9700", Driver: "32.0.21025.10016", Release: "25.Q3"}}
}

func TestEachRequirementIsARowWithItsFix(t *testing.T) {
	for name, tc := range map[string]struct {
		change    func(f *Facts, g *[]GPU)
		row       string
		level     Level
		text, fix string
	}{
		"ready":          {func(*Facts, *[]GPU) {}, "GPU", OK, "gfx1201, driver 32.0.21025.10016, AMD Software 25.Q3", ""},
		"Windows 10":     {func(f *Facts, _ *[]GPU) { f.Build = 19045 }, "Windows", Failed, "older than Windows 11 22H2", "ms-settings:windowsupdate"},
		"server":         {func(f *Facts, _ *[]GPU) { f.Product = "Windows Server 2025" }, "Windows", Warning, "AMD supports", ""},
		"memory":         {func(f *Facts, _ *[]GPU) { f.Memory = 16e9 }, "memory", Warning, "less than 32 GB", ""},
		"32 GB":          {func(f *Facts, _ *[]GPU) { f.Memory = 34e9 }, "memory", OK, "34.0 GB", ""},
		"small disk":     {func(f *Facts, _ *[]GPU) { f.Disk.Total = 1e11 }, "disk", Warning, "less than 200 GB", ""},
		"full disk":      {func(f *Facts, _ *[]GPU) { f.Disk.Free = 1e9 }, "disk", Failed, "less than 20 GB free", "cleanmgr"},
		"hard disk":      {func(f *Facts, _ *[]GPU) { *f.Disk.Rotates = true }, "disk", Warning, "not an SSD", ""},
		"unknown disk":   {func(f *Facts, _ *[]GPU) { f.Disk.Rotates = nil }, "disk", Warning, "unknown", ""},
		"no GPU":         {func(_ *Facts, g *[]GPU) { *g = nil }, "GPU", Failed, "no AMD GPU", "pnputil"},
		"no driver":      {func(_ *Facts, g *[]GPU) { (*g)[0].Driver = "" }, "GPU", Failed, "no driver", "amd.com"},
		"new GPU":        {func(_ *Facts, g *[]GPU) { (*g)[0].Device = 0xffff }, "GPU", Warning, "unknown architecture", "--tag gfx="},
		"no HIP":         {func(f *Facts, _ *[]GPU) { f.Runtime = Tool{} }, "HIP runtime", Failed, "missing", "amd.com"},
		"no HIP SDK":     {func(f *Facts, _ *[]GPU) { f.HIP = nil }, "HIP SDK", Warning, "not installed", "hip-sdk"},
		"no Python":      {func(f *Facts, _ *[]GPU) { delete(f.Tools, "Python") }, "Python", Failed, "not installed", "winget install --exact --id Python.Python.3.12 --version 3.12.10"},
		"old Python":     {func(f *Facts, _ *[]GPU) { f.Tools["Python"] = Tool{"p", "3.9.13"} }, "Python", Failed, "3.9.13 is older than 3.10", "winget"},
		"old CMake":      {func(f *Facts, _ *[]GPU) { f.Tools["CMake"] = Tool{"c", "3.25.1"} }, "CMake", Failed, "older than 3.26", "Kitware.CMake --version 3.31.6"},
		"no build tools": {func(f *Facts, _ *[]GPU) { delete(f.Tools, "Visual Studio Build Tools") }, "Visual Studio Build Tools", Failed, "not installed", "VCTools"},
		"short paths":    {func(f *Facts, _ *[]GPU) { f.LongPaths = false }, "long paths", Warning, "260", "reg add"},
	} {
		t.Run(name, func(t *testing.T) {
			f, g := ready()
			tc.change(&f, &g)
			found := false
			for _, r := range machineRows(f, g) {
				if r.Name != tc.row {
					require.Equal(t, OK, r.Level, "%v", r)
					continue
				}
				found = true
				require.Equal(t, tc.level, r.Level, "%v", r)
				require.Contains(t, r.Text, tc.text)
				require.Contains(t, r.Fix, tc.fix)
			}
			require.True(t, found)
		})
	}
}

// A service that does not run has no worker at the web, and its removal needs no web.
func TestOnlyARunningWorkerIsRetired(t *testing.T) {
	for name, c := range map[string]struct {
		worker  string
		running bool
		retired bool
	}{
		"running":              {"box", true, true},
		"stopped":              {"box", false, false},
		"running without name": {"", true, false},
	} {
		r := removal{m: &fakeMachine{}, settings: Settings{Name: c.worker}}
		require.Equal(t, c.retired, strings.HasPrefix(r.steps(true, c.running)[0].op, "retire worker "), name)
	}
}
