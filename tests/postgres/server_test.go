//go:build e2e

package postgres

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/postgres"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

const (
	patience      = time.Minute
	adminPassword = "of the admin"
)

// cluster is a running server with its own data.
type cluster struct {
	bin, dir string
	port     int
	server   *exec.Cmd
	log      bytes.Buffer
}

var shared *cluster

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	bin, err := programs()
	if err != nil {
		if os.Getenv("E2E") == "1" {
			fmt.Fprintln(os.Stderr, "cannot run the tests with PostgreSQL:", err)
			return 1
		}
		return m.Run() // each test skips and reports why
	}
	dir, err := os.MkdirTemp("", "postgres-test-release-")
	if err == nil {
		defer os.RemoveAll(dir)
		named, err = suite.ReleaseFolder(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c, err := start(bin, "")
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot start PostgreSQL:", err)
		return 1
	}
	defer c.stop()
	shared = c
	return m.Run()
}

// programs is the folder of the newest server that is installed.
func programs() (string, error) {
	if os.Geteuid() != 0 {
		return "", fmt.Errorf("root is needed to run a server as the user postgres")
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("there is no /usr/lib/postgresql (Debian: postgresql)")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// need is the server of this package.
func need(t *testing.T) *cluster {
	t.Helper()
	if shared == nil {
		_, err := programs()
		t.Skip(err)
	}
	return shared
}

// start makes a cluster in its own folder and waits until it answers. A file of the name in
// marker, if any, is put into its data before.
func start(bin, marker string) (*cluster, error) {
	// Not below a test's own folder: the user postgres must get there.
	dir, err := os.MkdirTemp("", "postgres-test-")
	if err != nil {
		return nil, err
	}
	c := &cluster{bin: bin, dir: dir}
	if err := c.begin(marker); err != nil {
		c.stop()
		return nil, fmt.Errorf("%w\n%s", err, c.log.String())
	}
	return c, nil
}

func (c *cluster) begin(marker string) error {
	owner, err := account()
	if err != nil {
		return err
	}
	data := filepath.Join(c.dir, "data")
	for path, text := range map[string]string{"password": adminPassword, "ca.pem": authority.PEM, "server.pem": certificate.PEM, "server.key": certificate.Key} {
		if err := os.WriteFile(filepath.Join(c.dir, path), []byte(text), 0o600); err != nil {
			return err
		}
		if err := os.Chown(filepath.Join(c.dir, path), int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	if err := os.Chown(c.dir, int(owner.Uid), int(owner.Gid)); err != nil {
		return err
	}
	initdb := c.command(owner, "initdb", "-D", data, "-U", "admin", "-A", "scram-sha-256", "--pwfile", filepath.Join(c.dir, "password"), "--no-sync", "-E", "UTF8", "--locale", "C")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	rules := "hostnossl all tlsonly all reject\nhost all all all scram-sha-256\n"
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(rules), 0o600); err != nil {
		return err
	}
	if marker != "" {
		path := filepath.Join(data, marker)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
		if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	if c.port, err = freePort(); err != nil {
		return err
	}
	c.server = c.command(owner, "postgres", "-D", data, "-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(c.port),
		"-c", "unix_socket_directories="+c.dir, "-c", "fsync=off", "-c", "ssl=on",
		"-c", "ssl_cert_file="+filepath.Join(c.dir, "server.pem"), "-c", "ssl_key_file="+filepath.Join(c.dir, "server.key"))
	c.server.Stdout, c.server.Stderr = &c.log, &c.log
	if err := c.server.Start(); err != nil {
		c.server = nil
		return err
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		_, err := c.sql("postgres", "select 1")
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return err
		}
	}
}

func (c *cluster) stop() {
	if c.server != nil {
		c.server.Process.Signal(syscall.SIGQUIT) // at once, with its children
		c.server.Wait()
	}
	os.RemoveAll(c.dir)
}

func (c *cluster) command(who *syscall.Credential, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who, Pdeathsig: syscall.SIGQUIT}
	return cmd
}

func account() (*syscall.Credential, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// sql runs statements as the admin.
func (c *cluster) sql(database, text string) (string, error) {
	return c.as("admin", adminPassword, database, text)
}

// as runs statements as a user of the server.
func (c *cluster) as(login, password, database, text string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", strconv.Itoa(c.port), "-U", login, "-d", database)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "PGPASSWORD=" + password, "PGCONNECT_TIMEOUT=10"}
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// must runs statements as the admin that must work.
func (c *cluster) must(t *testing.T, database, text string) string {
	t.Helper()
	out, err := c.sql(database, text)
	require.NoError(t, err)
	return out
}

// config is a login without TLS.
func (c *cluster) config(user, password, database string) postgres.Config {
	return postgres.Config{Host: "127.0.0.1", Port: c.port, User: user, Password: password, Name: database, SSLMode: "disable"}
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
