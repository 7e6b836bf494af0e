//go:build e2e

package concourse

import (
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// postgresBin is the newest PostgreSQL's folder of programs.
func postgresBin() string {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.Max(found))
}

// postgres is a server with its own cluster, which wants a password from everybody who
// comes by network.
type postgres struct {
	t                    *testing.T
	home                 string
	address              string
	user, password, name string
}

// said is the server's log.
func (p *postgres) said() string {
	p.t.Helper()
	data, err := os.ReadFile(p.home + ".log")
	require.NoError(p.t, err)
	return string(data)
}

// ask is a query by network with a password.
func (p *postgres) ask(user, password, database, query string) string {
	p.t.Helper()
	host, port, err := net.SplitHostPort(p.address)
	require.NoError(p.t, err)
	c := exec.Command(filepath.Join(postgresBin(), "psql"), "-XqAt", "-h", host, "-p", port, "-U", user, "-d", database, "-c", query)
	c.Env = []string{"PGPASSWORD=" + password, "PATH=/usr/bin:/bin"}
	out, err := c.CombinedOutput()
	require.NoError(p.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

func startPostgres(t *testing.T) *postgres {
	t.Helper()
	p := &postgres{t: t, address: gateway + ":5432", user: "relation-4", password: `a b"c\d$e#%,`, name: "concourse"}
	top, err := os.MkdirTemp("", "concourse-pg-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(top)) })
	require.NoError(t, os.Chmod(top, 0o755))
	p.home = filepath.Join(top, "pg")
	account, err := user.Lookup("postgres")
	require.NoError(t, err)
	uid, err := strconv.Atoi(account.Uid)
	require.NoError(t, err)
	gid, err := strconv.Atoi(account.Gid)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(p.home, 0o700))
	require.NoError(t, os.Chown(p.home, uid, gid))
	as := func(program string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(postgresBin(), program), args...)
		c.Dir = p.home
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return c
	}
	out, err := as("initdb", "-D", p.home, "-A", "trust", "-U", "postgres", "--no-sync").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.WriteFile(filepath.Join(p.home, "pg_hba.conf"), []byte("local all postgres trust\nhost all all 0.0.0.0/0 scram-sha-256\n"), 0o600))
	server := as("postgres", "-D", p.home, "-p", "5432", "-k", p.home, "-c", "listen_addresses="+gateway,
		"-c", "fsync=off", "-c", "max_connections=200", "-c", "log_connections=on")
	log, err := os.Create(p.home + ".log")
	require.NoError(t, err)
	defer log.Close()
	server.Stdout, server.Stderr = log, log
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		require.NoError(t, server.Process.Signal(syscall.SIGQUIT)) // at once, with its children
		server.Wait()                                              // it was stopped
	})
	admin := []string{"-h", p.home, "-U", "postgres", "-d", "postgres", "-qAt", "-v", "ON_ERROR_STOP=1", "-c"}
	until(t, func() bool { return as("psql", append(admin, "select 1")...).Run() == nil })
	for _, statement := range []string{`create role "` + p.user + `" login password '` + p.password + `'`, `create database ` + p.name + ` owner "` + p.user + `"`} {
		out, err := as("psql", append(admin, statement)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return p
}
