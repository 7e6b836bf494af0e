package exporter

import (
	"bufio"
	"context"
	"debug/elf"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/siege"
)

// stuck is when a test gives up on a program; no test waits for it otherwise.
const stuck = time.Minute

// maxBinary bounds the bytes of the program as it is shipped. It reads leases, because it records runs,
// and watches the files of engines for their exit statuses.
const maxBinary = 15_760_000

func TestBinary(t *testing.T) {
	bin := build(t)
	t.Run("is small and static", func(t *testing.T) {
		st, err := os.Stat(bin)
		require.NoError(t, err)
		require.LessOrEqual(t, st.Size(), int64(maxBinary))
		f, err := elf.Open(bin)
		require.NoError(t, err)
		defer f.Close()
		libraries, err := f.ImportedLibraries()
		require.NoError(t, err)
		require.Empty(t, libraries)
		require.Nil(t, f.Section(".interp"))
	})
	t.Run("serves until SIGTERM and then ends with 0", func(t *testing.T) {
		p := start(t, bin, hosttest.Host(t, "amd"), nil)
		code, body := p.get(t, "/metrics")
		require.Equal(t, 200, code)
		require.Regexp(t, `rocm_exporter_build_info\{.*version="v1.2.3"\} 1`, body)
		require.Contains(t, body, `rocm_gpu_temperature{gpu="0",pci_bus_id="0000:03:00.0",uuid="GPU-4be2f10c93d57a68"} `)
		code, _ = p.get(t, "/-/healthy")
		require.Equal(t, 200, code)
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, p.cmd.Wait())
	})
	t.Run("what it cannot start with ends it with 1", func(t *testing.T) {
		p := start(t, bin, hosttest.Host(t, "amd"), nil)
		for flag, why := range map[string]string{
			"--web.listen-address=" + p.address:      "cannot listen on " + p.address + ": address already in use",
			"--web.listen-address=9401":              "cannot listen on 9401: address 9401: missing port in address",
			"--web.listen-address=127.0.0.1:port":    "cannot listen on 127.0.0.1:port: ",
			"--web.config.file=/nonexistent":         "cannot use --web.config.file /nonexistent: ",
			"--path.root=" + filepath.Join(bin, "x"): "cannot read --path.root: ",
		} {
			out, err := exec.Command(bin, "serve", flag).CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, 1, exit.ExitCode())
			require.Contains(t, string(out), "rocm-exporter: "+why)
		}
	})
	t.Run("finishes the scrape in progress before it ends", func(t *testing.T) {
		r := hosttest.Host(t, "amd")
		list, _, err := monitor.All(r)()
		require.NoError(t, err)
		reached, end := exportertest.FIFO(t, r, list[0].Sysfs+"/gpu_busy_percent")
		p := start(t, bin, r, nil)
		body := make(chan string, 1)
		go func() {
			resp, err := http.Get("http://" + p.address + "/metrics")
			if err != nil {
				body <- err.Error()
				return
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			body <- string(b)
		}()
		<-reached
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		end("42\n")
		require.Contains(t, <-body, "rocm_exporter_device_up{")
		require.NoError(t, p.cmd.Wait())
	})
	t.Run("serves on when clients never read and keep all files open", func(t *testing.T) {
		p := start(t, bin, hosttest.Host(t, "amd"), nil)
		siege.Run(t, p.address, p.cmd.Process.Pid)
	})
	t.Run("needs no privilege (D39)", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("this whole test runs without privilege already")
		}
		r := hosttest.Host(t, "amd")
		open(t, string(r))
		open(t, bin)
		p := start(t, bin, r, &syscall.Credential{Uid: 65534, Gid: 65534})
		_, body := p.get(t, "/metrics")
		require.Contains(t, body, "rocm_power_usage{")
		require.NotContains(t, body, "rocm_exporter_read_errors_total")
	})
	t.Run("ends with a killed parent", func(t *testing.T) { endsWithAKilledParent(t, bin) })
}

// endsWithAKilledParent requires that a killed supervisor leaves no program that holds the port.
func endsWithAKilledParent(t *testing.T, bin string) {
	t.Helper()
	r := hosttest.Host(t, "amd")
	shell := exec.Command("sh", "-c", `"$@" & echo $!; wait`, "sh", bin, "serve",
		"--web.listen-address=127.0.0.1:0", "--path.root="+string(r))
	out, err := shell.StdoutPipe()
	require.NoError(t, err)
	errs, err := shell.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, shell.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	guard := time.AfterFunc(stuck, func() { syscall.Kill(pid, syscall.SIGKILL) })
	said := bufio.NewReader(errs)
	_, err = said.ReadString('\n') // it listens
	require.NoError(t, err)
	require.NoError(t, shell.Process.Kill())
	_, err = io.ReadAll(said) // ends when no one holds the other end
	require.NoError(t, err)
	require.True(t, guard.Stop(), "it lived on and had to be killed")
	require.Error(t, shell.Wait())
}

// build makes the program as it is shipped.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "rocm-exporter")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X github.com/fourdollars/concourse-ci-machine/internal/base/version.linked=v1.2.3", "-o", bin, "../../src/rocm-exporter")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return bin
}

type process struct {
	cmd     *exec.Cmd
	address string
}

// start runs the program on a free port and returns when it listens.
func start(t *testing.T, bin string, r host.Root, as *syscall.Credential) process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stuck)
	t.Cleanup(cancel) // kills it if the test has not ended it
	cmd := exec.CommandContext(ctx, bin, "serve", "--web.listen-address=127.0.0.1:0", "--path.root="+string(r))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(errs).ReadString('\n')
	require.NoError(t, err, line)
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "rocm-exporter: listening on ")
	require.True(t, ok, line)
	return process{cmd, address}
}

func (p process) get(t *testing.T, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + p.address + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// open lets other users reach a path in one of this test's own folders.
func open(t *testing.T, p string) {
	t.Helper()
	for dir := p; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
}
