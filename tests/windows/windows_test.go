//go:build e2e

// Package windows runs concourse-worker-windows under Wine: installation, the life of the
// service and removal, with a stand-in for concourse.exe or the program that CONCOURSE_WINDOWS
// names.
package windows

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// TestMain gives the tests their own network, because the worker's ports are fixed. All
// processes end with it.
func TestMain(m *testing.M) {
	os.Exit(suite.Namespaced{Name: "the worker for Windows", Missing: missing(), Flags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
		Inside: func(m *testing.M, _ string) int {
			for _, argv := range [][]string{{"mount", "-t", "proc", "proc", "/proc"}, {"ip", "link", "set", "lo", "up"}} {
				if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
					fmt.Fprintf(os.Stderr, "cannot set up the namespaces: %v: %s\n", argv, out)
					return 1
				}
			}
			return m.Run()
		}}.Run(m))
}

// missing returns why the tests cannot run here, or "".
func missing() string {
	if os.Geteuid() != 0 {
		return "it needs root"
	}
	return suite.Lacks("wine, wine64, iproute2", "wine", "ip", "mount")
}

// wine is a private Windows with a drive C.
type wine struct {
	t      *testing.T
	prefix string
}

// patience is for a loaded machine; every wait ends with its event.
const patience = 5 * time.Minute

// start makes a Windows in which Go's programs run.
func start(t *testing.T) wine {
	t.Helper()
	suite.Need(t, missing())
	w := wine{t, filepath.Join(t.TempDir(), "prefix")}
	require.NoError(t, os.Mkdir(w.prefix, 0o700))
	w.keep()
	// Go loads this library, which Wine has only since version 9.
	library := filepath.Join(w.prefix, "drive_c/windows/system32/bcryptprimitives.dll")
	if _, err := os.Stat(library); err != nil {
		require.NoError(t, os.WriteFile(library, forwarder("bcryptprimitives.dll", "ProcessPrng", "advapi32.SystemFunction036"), 0o644))
	}
	for name, source := range map[string]string{"worker.exe": "./src/concourse-worker-windows", "concourse.exe": "./tests/windows/concourse"} {
		c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", w.c(name), source)
		c.Dir, c.Env = hosttest.Source(), append(os.Environ(), "CGO_ENABLED=0", "GOOS=windows", "GOARCH=amd64")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return w
}

// keep starts Windows and keeps it running, because services end with the last other process.
func (w wine) keep() {
	w.t.Helper()
	shell := w.command("cmd")
	in, err := shell.StdinPipe()
	require.NoError(w.t, err)
	out, err := shell.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, shell.Start())
	w.t.Cleanup(func() {
		in.Close()
		stop := exec.Command("wineserver", "--kill")
		stop.Env = w.env()
		_ = stop.Run() // the processes may have ended
		_ = shell.Wait()
	})
	prompt, err := bufio.NewReader(out).ReadString('>')
	require.NoError(w.t, err, prompt)
}

func (w wine) c(path string) string { return filepath.Join(w.prefix, "drive_c", path) }

func (w wine) env() []string {
	return append(os.Environ(), "WINEPREFIX="+w.prefix, "WINEDEBUG=-all", "WINEDLLOVERRIDES=mscoree=;mshtml=", "DISPLAY=")
}

func (w wine) command(args ...string) *exec.Cmd {
	c := exec.Command("wine", args...)
	c.Env, c.Dir = w.env(), w.prefix
	return c
}

// try returns the exit status, stdout and stderr of a program. These are files, because the
// server of Wine and services keep them open after the program's end.
func (w wine) try(args ...string) (exit int, out, errs string) {
	w.t.Helper()
	c := w.command(args...)
	stdout, stderr := w.file(), w.file()
	c.Stdout, c.Stderr = stdout, stderr
	err := c.Run()
	if c.ProcessState == nil {
		require.NoError(w.t, err)
	}
	read := func(f *os.File) string {
		defer f.Close()
		data, err := os.ReadFile(f.Name())
		require.NoError(w.t, err)
		return strings.ReplaceAll(string(data), "\r", "")
	}
	return c.ProcessState.ExitCode(), read(stdout), read(stderr)
}

func (w wine) file() *os.File {
	w.t.Helper()
	f, err := os.CreateTemp(w.t.TempDir(), "output")
	require.NoError(w.t, err)
	return f
}

func (w wine) run(args ...string) string {
	w.t.Helper()
	exit, out, errs := w.try(args...)
	require.Zero(w.t, exit, "%v\n%s%s", args, out, errs)
	return out
}

func (w wine) worker(args ...string) string {
	w.t.Helper()
	return w.run(append([]string{"C:\\worker.exe"}, args...)...)
}

// status is the part of status --json that the test reads.
type status struct {
	Service struct {
		Installed, Running, Automatic bool
		Account                       string
		PID                           int
	}
	State *struct {
		PID, Starts int
		Problem     string
		Tags        []string
	}
	Registration struct{ State string }
	Problem      string
}

func (w wine) status() (s status) {
	exit, out, errs := w.try("C:\\worker.exe", "status", "--json")
	require.Contains(w.t, []int{0, 1}, exit, errs)
	if out == "" { // such as a file that the service replaces at this moment
		s.Problem = errs
		return s
	}
	require.NoError(w.t, json.Unmarshal([]byte(out), &s), out+errs)
	return s
}

// await waits for a status.
func (w wine) await(what string, is func(s status) bool) (s status) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		s = w.status()
		return is(s)
	}, patience, 200*time.Millisecond, what)
	return s
}

func running(s status) bool {
	return s.Service.Running && s.State != nil && s.State.PID > 0 && s.Registration.State == "registered"
}

// processes returns the process ids of Concourse's worker and of its task, as they wrote
// them.
func (w wine) processes() (worker, task int) {
	data, err := os.ReadFile(w.c("work/worker.txt"))
	require.NoError(w.t, err)
	_, err = fmt.Sscan(string(data), &worker, &task)
	require.NoError(w.t, err)
	return worker, task
}

// alive asks the stand-in, because Wine's tasklist shows nothing.
func (w wine) alive(pid int) bool {
	exit, _, errs := w.try("C:\\concourse.exe", "alive", fmt.Sprint(pid))
	require.Contains(w.t, []int{0, 1}, exit, errs)
	return exit == 0
}

// services returns everything that the registry has of services.
func (w wine) services() string {
	return w.run("reg", "query", `HKLM\System\CurrentControlSet\Services`, "/s")
}

func (w wine) install(more ...string) (exit int, out, errs string) {
	return w.try(append([]string{"C:\\worker.exe", "install", "--offline", "--concourse", "C:\\concourse.exe", "--tsa-host", "10.0.0.10:2222",
		"--tsa-public-key", "C:\\tsa.pub", "--name", "rdna4-box", "--work-dir", "C:\\work"}, more...)...)
}

// One Windows serves both parts, because its start takes a while.
func TestWorkerUnderWine(t *testing.T) {
	w := start(t)
	t.Run("check names the command that helps", func(t *testing.T) { checks(t, w) })
	t.Run("the service lives and leaves nothing", func(t *testing.T) { lives(t, w) })
}

func lives(t *testing.T, w wine) {
	w.t = t
	_, public := hosttest.Key("tsa")
	require.NoError(t, os.WriteFile(w.c("tsa.pub"), []byte(public), 0o644))
	before := w.services()

	_, out, _ := w.install("--dry-run")
	require.Contains(t, out, "install service concourse-worker for NT SERVICE\\concourse-worker")
	require.Equal(t, before, w.services(), "a dry run changed the registry")
	require.NoDirExists(t, w.c("ProgramData/concourse-worker"))

	require.NoError(t, os.MkdirAll(w.c("work/photos"), 0o755))
	exit, _, errs := w.install()
	require.Equal(t, 1, exit)
	require.Contains(t, errs, `--work-dir C:\work has other files, such as photos`)
	require.NoError(t, os.RemoveAll(w.c("work")))

	exit, out, errs = w.install("--tag", "rdna4")
	require.Zero(t, exit, out+errs)
	require.Contains(t, out, "\nssh-rsa AAAA")
	first := w.await("the worker is registered", running)
	require.True(t, first.Service.Automatic)
	require.Equal(t, `NT SERVICE\concourse-worker`, first.Service.Account)
	require.Equal(t, []string{"windows", "rdna4", "gpu-count=0"}, first.State.Tags)
	key, err := os.ReadFile(w.c("ProgramData/concourse-worker/keys/worker_key"))
	require.NoError(t, err)
	data, err := os.ReadFile(w.c("work/worker.txt"))
	require.NoError(t, err)
	for _, want := range []string{"CONCOURSE_NAME=rdna4-box", "CONCOURSE_TAG=windows,rdna4,gpu-count=0", "CONCOURSE_BIND_IP=127.0.0.1",
		`CONCOURSE_TSA_WORKER_PRIVATE_KEY=C:\ProgramData\concourse-worker\keys\worker_key`, `TEMP=C:\work\tmp`} {
		require.Contains(t, string(data), "\n"+want+"\n")
	}

	worker, task := w.processes()
	require.Equal(t, first.State.PID, worker)
	require.True(t, w.alive(task), "the task runs outside the worker's own job")
	w.run("C:\\concourse.exe", "kill", fmt.Sprint(worker)) // exits with 1, as by Windows' taskkill, not Wine's
	second := w.await("the worker was started again", func(s status) bool { return running(s) && s.State.PID != worker })
	require.Equal(t, 2, second.State.Starts)
	require.Equal(t, first.Service.PID, second.Service.PID, "the service itself kept running")
	require.False(t, w.alive(task), "the task of the dead worker has ended")

	exit, out, errs = w.install("--tag", "other")
	require.Zero(t, exit, out+errs)
	w.await("the changed worker is registered", func(s status) bool { return running(s) && s.State.Tags[1] == "other" })
	again, err := os.ReadFile(w.c("ProgramData/concourse-worker/keys/worker_key"))
	require.NoError(t, err)
	require.Equal(t, key, again, "a second installation keeps the key")

	exit, out, errs = w.try("C:\\worker.exe", "install", "--offline", "--concourse", "C:\\missing.zip")
	require.Equal(t, 1, exit, errs)
	require.Contains(t, out, "start service concourse-worker again\n")
	w.await("the worker of a failed upgrade is registered", running)

	worker, task = w.processes()
	w.run("net", "stop", "concourse-worker")
	require.False(t, w.alive(worker))
	require.False(t, w.alive(task), "the service ends tasks")
	exit, _, _ = w.try("C:\\worker.exe", "status")
	require.Equal(t, 1, exit)
	w.run("net", "start", "concourse-worker")
	w.await("the worker is registered again", running)

	w.worker("uninstall")
	require.Equal(t, before, w.services())
	for _, path := range []string{"ProgramData/concourse-worker", "Program Files/concourse-worker", "work"} {
		require.NoDirExists(t, w.c(path))
	}
	require.False(t, w.status().Service.Installed)
}

// checks runs check, which needs no installed worker. Each failed row has a fix.
func checks(t *testing.T, w wine) {
	w.t = t
	exit, out, errs := w.try("C:\\worker.exe", "check", "--offline", "--json")
	require.Equal(t, 1, exit, errs)
	var rows []struct{ Name, Level, Text, Fix string }
	require.NoError(t, json.Unmarshal([]byte(out), &rows), out)
	found := map[string]bool{}
	for _, r := range rows {
		found[r.Name] = true
		require.Contains(t, []string{"ok", "warning", "failed"}, r.Level)
		if r.Level == "failed" {
			require.NotEmpty(t, r.Fix, "%v", r)
		}
	}
	for _, name := range []string{"Windows", "memory", "disk", "GPU", "HIP runtime", "HIP SDK", "Python", "CMake", "Ninja", "Git",
		"Visual Studio Build Tools", "long paths", "service"} {
		require.True(t, found[name], name)
	}
}
