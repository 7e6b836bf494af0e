package suite

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Web is a running web of a real Concourse, to which workers may be added. Keys is a folder
// with the pairs session, tsa and worker.
type Web struct{ URL, Metrics, Program, Keys, TSA string }

// StartWeb starts a PostgreSQL and a web on this machine's loopback, with the users admin
// (an owner of the team main), other and no one. CONCOURSE_RELEASE is a release as it is
// published: its folder, or the archive.
func StartWeb(t *testing.T) Web {
	t.Helper()
	release := os.Getenv("CONCOURSE_RELEASE")
	if release == "" {
		t.Skip("CONCOURSE_RELEASE does not name a release of Concourse")
	}
	bin := postgresBin(t)
	if st, err := os.Stat(release); err == nil && st.Mode().IsRegular() {
		dir := t.TempDir()
		out, err := exec.Command("tar", "-xzf", release, "-C", dir).CombinedOutput()
		require.NoError(t, err, string(out))
		release = dir
	}
	program := filepath.Join(release, "bin/concourse")
	if _, err := os.Stat(program); err != nil {
		program = filepath.Join(release, "concourse/bin/concourse")
	}

	keys := t.TempDir()
	for name, kind := range map[string]string{"session": "rsa", "tsa": "ssh", "worker": "ssh"} {
		out, err := exec.Command(program, "generate-key", "-t", kind, "-f", filepath.Join(keys, name)).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	port := freePorts(t, 5)
	c := Web{fmt.Sprintf("http://127.0.0.1:%d", port[0]), fmt.Sprintf("http://127.0.0.1:%d/metrics", port[4]), program, keys, fmt.Sprintf("127.0.0.1:%d", port[1])}
	web := exec.Command(program, "web")
	web.Env = append(os.Environ(),
		"CONCOURSE_POSTGRES_SOCKET="+startPostgres(t, bin), "CONCOURSE_POSTGRES_USER=concourse", "CONCOURSE_POSTGRES_DATABASE=postgres",
		"CONCOURSE_EXTERNAL_URL="+c.URL, "CONCOURSE_PEER_ADDRESS=127.0.0.1",
		"CONCOURSE_BIND_IP=127.0.0.1", fmt.Sprintf("CONCOURSE_BIND_PORT=%d", port[0]),
		"CONCOURSE_TSA_BIND_IP=127.0.0.1", fmt.Sprintf("CONCOURSE_TSA_BIND_PORT=%d", port[1]),
		fmt.Sprintf("CONCOURSE_TSA_DEBUG_BIND_PORT=%d", port[2]), fmt.Sprintf("CONCOURSE_DEBUG_BIND_PORT=%d", port[3]),
		"CONCOURSE_SESSION_SIGNING_KEY="+filepath.Join(keys, "session"), "CONCOURSE_TSA_HOST_KEY="+filepath.Join(keys, "tsa"),
		"CONCOURSE_TSA_AUTHORIZED_KEYS="+filepath.Join(keys, "worker.pub"),
		"CONCOURSE_PROMETHEUS_BIND_IP=127.0.0.1", fmt.Sprintf("CONCOURSE_PROMETHEUS_BIND_PORT=%d", port[4]),
		"CONCOURSE_CONTAINER_PLACEMENT_STRATEGY=limit-active-tasks", "CONCOURSE_MAX_ACTIVE_TASKS_PER_WORKER=1",
		"CONCOURSE_ADD_LOCAL_USER=admin:s3 cr&t,other:o,nobody:n", "CONCOURSE_MAIN_TEAM_LOCAL_USER=admin",
	)
	background(t, web, `"message":"atc.listening"`, syscall.SIGTERM)
	return c
}

// StartWorker adds a worker with the tag gpu. It needs no root, as its containers are
// none: Concourse's houdini runs tasks as processes, with handles as all have.
func (c Web) StartWorker(t *testing.T) {
	t.Helper()
	port := freePorts(t, 5)
	work := t.TempDir()
	t.Cleanup(func() { // houdini mounts what a task gets, if it is root
		mounts, err := os.ReadFile("/proc/self/mounts")
		require.NoError(t, err)
		for line := range strings.Lines(string(mounts)) {
			if at := strings.Fields(line)[1]; strings.HasPrefix(at, work+"/") {
				require.NoError(t, syscall.Unmount(at, 0))
			}
		}
	})
	worker := exec.Command(c.Program, "worker")
	worker.Env = append(os.Environ(), "CONCOURSE_NAME=gpu-0", "CONCOURSE_WORK_DIR="+work, "CONCOURSE_RUNTIME=houdini", "CONCOURSE_TAG=gpu",
		"CONCOURSE_TSA_HOST="+c.TSA, "CONCOURSE_TSA_PUBLIC_KEY="+filepath.Join(c.Keys, "tsa.pub"), "CONCOURSE_TSA_WORKER_PRIVATE_KEY="+filepath.Join(c.Keys, "worker"),
		"CONCOURSE_BAGGAGECLAIM_DRIVER=naive", fmt.Sprintf("CONCOURSE_BIND_PORT=%d", port[0]), fmt.Sprintf("CONCOURSE_BAGGAGECLAIM_BIND_PORT=%d", port[1]),
		fmt.Sprintf("CONCOURSE_HEALTHCHECK_BIND_PORT=%d", port[2]), fmt.Sprintf("CONCOURSE_DEBUG_BIND_PORT=%d", port[3]), fmt.Sprintf("CONCOURSE_BAGGAGECLAIM_DEBUG_BIND_PORT=%d", port[4]))
	background(t, worker, `"message":"worker.beacon-runner.beacon.registered"`, syscall.SIGTERM)
}

// startPostgres returns the folder of its socket. PostgreSQL refuses to be root.
func startPostgres(t *testing.T, bin string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg") // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	var as *syscall.SysProcAttr
	if os.Geteuid() == 0 {
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		require.NoError(t, os.Chown(dir, 65534, 65534))
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-A", "trust", "-U", "concourse", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = as, dir
	out, err := initdb.CombinedOutput()
	require.NoError(t, err, string(out))
	postgres := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-F")
	postgres.SysProcAttr, postgres.Dir = as, dir
	background(t, postgres, "database system is ready to accept connections", syscall.SIGINT)
	return dir
}

// postgresBin is the folder of PostgreSQL's programs; Debian has them off PATH.
func postgresBin(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	require.NoError(t, err)
	if p, err := exec.LookPath("initdb"); err == nil {
		found = append(found, p)
	}
	if len(found) == 0 {
		Without(t, "postgresql")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1])
}

// background starts a program, waits for a line that has the text, and ends it
// after the test.
func background(t *testing.T, cmd *exec.Cmd, ready string, end syscall.Signal) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	t.Cleanup(func() {
		cmd.Process.Signal(end)
		cmd.Wait()
		r.Close()
	})
	var said strings.Builder
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		said.WriteString(line)
		require.NoError(t, err, said.String())
		if strings.Contains(line, ready) {
			go io.Copy(io.Discard, lines) // it must not wait for a reader
			return
		}
	}
}

// freePorts are free until another program takes them.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
