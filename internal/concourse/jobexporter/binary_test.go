package jobexporter

import (
	"bufio"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/siege"
)

// stuck is when a test gives up on a program; no test waits for it otherwise.
const stuck = time.Minute

// maxBinary is what the program may weigh, as it is shipped.
const maxBinary = 15_000_000

func TestBinary(t *testing.T) {
	bin := buildProgram(t)
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
		b := newBed(t)
		b.web.Set((*atctest.Server).Site)
		p := start(t, bin, b.file, nil)
		require.Equal(t, "Concourse answers at "+b.web.URL, p.line(t))
		code, body := p.get(t, "/metrics")
		require.Equal(t, 200, code)
		require.Contains(t, body, `concourse_exporter_info{version="v1.2.3"} 1`)
		require.Contains(t, body, `concourse_job_last_build_status{job="succeeded",pipeline="plain",team="main"} 1`)
		for _, path := range []string{"/-/healthy", "/-/ready"} {
			code, _ = p.get(t, path)
			require.Equal(t, 200, code, path)
		}
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, p.cmd.Wait())
	})
	t.Run("SIGHUP reads the credentials again and asks at once", func(t *testing.T) {
		b := newBed(t)
		b.web.Set(func(s *atctest.Server) { s.Users["admin"] = "new" })
		p := start(t, bin, b.file, nil)
		require.Contains(t, p.line(t), "the web at "+b.web.URL+" rejects the password of user admin")
		code, _ := p.get(t, "/-/ready")
		require.Equal(t, 503, code)
		code, _ = p.get(t, "/-/healthy")
		require.Equal(t, 200, code)
		b.credentials(t, login.Credentials{URL: b.web.URL, Username: "admin", Password: "new"})
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
		require.Equal(t, "Concourse answers at "+b.web.URL, p.line(t))
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
		require.NoError(t, p.cmd.Wait())
	})
	t.Run("ends at SIGTERM while Concourse keeps it waiting", func(t *testing.T) {
		b, reached := newBed(t), make(chan struct{})
		b.web.Set(func(s *atctest.Server) {
			s.Handle[atctest.Token] = func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body) // the end of a client is seen only after that
				close(reached)
				<-r.Context().Done()
			}
		})
		p := start(t, bin, b.file, nil)
		<-reached
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, p.cmd.Wait())
	})
	t.Run("without a usable file it serves and says why", func(t *testing.T) {
		p := start(t, bin, "/nonexistent/credentials.json", nil)
		require.Equal(t, "cannot use credentials file /nonexistent/credentials.json: no such file or directory", p.line(t))
		_, body := p.get(t, "/metrics")
		require.Contains(t, body, "\nconcourse_exporter_up 0\n")
	})
	t.Run("what it cannot start with ends it with 1", func(t *testing.T) {
		p := start(t, bin, newBed(t).file, nil)
		for flag, why := range map[string]string{
			"--web.listen-address=" + p.address:   "cannot listen on " + p.address + ": address already in use",
			"--web.listen-address=9358":           "cannot listen on 9358: address 9358: missing port in address",
			"--web.listen-address=127.0.0.1:port": "cannot listen on 127.0.0.1:port: ",
			"--web.config.file=/nonexistent":      "cannot use --web.config.file /nonexistent: ",
		} {
			out, err := exec.Command(bin, "--credentials-file=/x", flag).CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, 1, exit.ExitCode())
			require.Contains(t, string(out), "concourse-exporter: "+why)
		}
	})
	t.Run("serves on when clients never read and keep all files open", func(t *testing.T) {
		p := start(t, bin, newBed(t).file, nil)
		siege.Run(t, p.address, p.cmd.Process.Pid)
	})
	// It ran as root, with the password on fly's command line and the token in a
	// file of root's.
	t.Run("needs no privilege and tells nobody its password (D39)", func(t *testing.T) {
		b := newBed(t)
		var as *syscall.Credential
		if os.Getuid() == 0 {
			as = &syscall.Credential{Uid: 65534, Gid: 65534}
			open(t, filepath.Dir(b.file))
			open(t, bin)
			require.NoError(t, os.Chown(b.file, 65534, 65534))
		}
		p := start(t, bin, b.file, as)
		require.Equal(t, "Concourse answers at "+b.web.URL, p.line(t))
		for _, file := range []string{"cmdline", "environ"} {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file))
			require.NoError(t, err)
			require.NotContains(t, string(data), "s3 cr")
		}
		left, err := os.ReadDir(p.cmd.Dir)
		require.NoError(t, err)
		require.Empty(t, left, "it leaves nothing at home")
	})
	t.Run("ends with a killed parent", func(t *testing.T) { endsWithAKilledParent(t, bin) })
}

// endsWithAKilledParent requires that a killed supervisor leaves no program that holds the port.
func endsWithAKilledParent(t *testing.T, bin string) {
	t.Helper()
	shell := exec.Command("sh", "-c", `"$@" & echo $!; wait`, "sh", bin, "--web.listen-address=127.0.0.1:0", "--credentials-file=/x")
	errs, err := shell.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, shell.Start())
	said := bufio.NewReader(errs)
	_, err = said.ReadString('\n') // it listens
	require.NoError(t, err)
	require.NoError(t, shell.Process.Kill())
	_, err = io.ReadAll(said) // ends when no one holds the other end
	require.NoError(t, err)
	require.Error(t, shell.Wait())
}

// buildProgram makes the program as it is shipped.
func buildProgram(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "concourse-exporter")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X github.com/fourdollars/concourse-ci-machine/internal/base/version.linked=v1.2.3", "-o", bin, "../../../src/concourse-exporter")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return bin
}

type process struct {
	cmd     *exec.Cmd
	address string
	said    *bufio.Reader
}

// start runs the program on a free port, at home in a folder that is empty, and
// returns when it listens.
func start(t *testing.T, bin, file string, as *syscall.Credential, flags ...string) process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stuck)
	cmd := exec.CommandContext(ctx, bin, append(flags, "--web.listen-address=127.0.0.1:0", "--credentials-file="+file)...)
	cmd.Dir = t.TempDir()
	open(t, cmd.Dir)
	cmd.Env = []string{"HOME=" + cmd.Dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cancel(); cmd.Wait() }) // kills it if the test has not ended it
	p := process{cmd: cmd, said: bufio.NewReader(errs)}
	address, ok := strings.CutPrefix(p.line(t), "listening on ")
	require.True(t, ok)
	p.address = address
	return p
}

// line is the next line of its log.
func (p process) line(t *testing.T) string {
	t.Helper()
	line, err := p.said.ReadString('\n')
	require.NoError(t, err, line)
	return strings.TrimPrefix(strings.TrimSpace(line), "concourse-exporter: ")
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
