//go:build e2e

package web

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// A unit is a machine's root with what the charm writes for a web, and the web
// that runs with it.
type unit struct {
	t       *testing.T
	host    host.Host
	release string
	config  concourse.WebConfig
	secrets concourse.WebSecrets
	files   []plan.Resource // next to the config's
	uid     int
	process *exec.Cmd
	log     string
}

// newUnit is number n of an application with these secrets and this database.
func newUnit(t *testing.T, n int, pg *postgres, secrets concourse.WebSecrets) *unit {
	t.Helper()
	u := &unit{t: t, release: releaseDir(t), secrets: secrets, host: host.New(folder(t))}
	for file, text := range map[string]string{"/etc/passwd": "root:x:0:0::/root:/bin/sh\n", "/etc/group": "root:x:0:\n"} {
		require.NoError(t, u.host.WriteFile(file, []byte(text), 0o644))
	}
	p := concourse.HomeWebFiles()
	db := pg.db
	db.CAFile = p.DatabaseCA()
	u.config = concourse.WebConfig{Paths: p, BindPort: 80 + n, LogLevel: "info", ExternalURL: fmt.Sprintf("https://127.0.0.1:%d", 443+n),
		PeerAddress: "127.0.0.1", ClusterName: "a test", TLSPort: 443 + n, AdminPassword: secrets.AdminPassword,
		WebOptions: concourse.WebOptions{InitialAdminUsername: "admin", ExtraLocalUsers: `eve:e"v$e\ `, EnableMetrics: n == 0},
		Database:   db, EncryptionKey: "0123456789abcdef", TaskLimit: 4,
		Options: map[string]string{"CONCOURSE_DEFAULT_BUILD_LOGS_TO_RETAIN": "7"}}
	cert, key := certificate(t)
	u.files = []plan.Resource{
		resource.File{Path: p.DatabaseCA(), Data: pg.ca, Mode: 0o644, Owner: concourse.WebUser},
		resource.File{Path: p.TLSCert(), Data: cert, Mode: 0o644, Owner: concourse.WebUser},
		resource.File{Path: p.TLSKey(), Data: key, Mode: 0o600, Owner: concourse.WebUser},
		p.Authorized(nil, nil),
	}
	return u
}

// converge does what a hook does: what is missing and nothing more.
func (u *unit) converge() []string {
	u.t.Helper()
	p := u.config.Paths
	existing, err := u.host.ReadFile(p.Env())
	if err != nil {
		require.ErrorIs(u.t, err, os.ErrNotExist)
	}
	env, err := u.config.File(existing)
	require.NoError(u.t, err)
	keys, err := p.Keys(u.secrets)
	require.NoError(u.t, err)
	file, err := concourse.WebUnitFileFor(p, nil)
	require.NoError(u.t, err)
	want := slices.Concat([]plan.Resource{resource.User{Name: concourse.WebUser, Home: release.HomeDir}}, p.Folders(), keys, u.files, []plan.Resource{env, file})
	todo, err := plan.Diff(context.Background(), u.host, want...)
	require.NoError(u.t, err)
	_, err = todo.Apply(context.Background(), nil)
	require.NoError(u.t, err)
	var ops []string
	for _, s := range todo {
		ops = append(ops, s.Op)
	}
	return ops
}

// hardened is what the unit makes of the machine for the web: a root to read only,
// temporary its own folders, one capability and no other user's rights. The folder of this
// test's machine is named in the environment, and the release is beside it: its own may be
// below /tmp, which the web does not see.
const hardened = `set -e
mount -t tmpfs tmpfs /var/lib && mkdir /var/lib/concourse /var/lib/release
mount --bind "$1/var/lib/concourse" /var/lib/concourse && mount --bind "$3" /var/lib/release
mount -o remount,bind,ro /var/lib/concourse && mount -o remount,ro /var/lib
mount -o remount,bind,ro / && mount -t tmpfs -o mode=1777 tmpfs /tmp && mount -t tmpfs -o mode=1777 tmpfs /var/tmp
cd /var/lib/concourse
uid=$2
exec setpriv --reuid="$uid" --regid="$uid" --clear-groups --no-new-privs --pdeathsig=KILL \
	--bounding-set=-all,+net_bind_service --inh-caps=-all,+net_bind_service --ambient-caps=-all,+net_bind_service /var/lib/release/bin/concourse web`

// start runs the web with the environment that systemd would read; more is the
// operator's file, which comes last.
func (u *unit) start(more map[string]string) {
	u.t.Helper()
	st, err := u.host.Stat(u.config.Paths.TSAHostKey())
	require.NoError(u.t, err)
	u.uid = int(st.Sys().(*syscall.Stat_t).Uid)
	require.NotZero(u.t, u.uid)
	u.log = filepath.Join(u.host.Path("/"), "web.log")
	log, err := os.Create(u.log)
	require.NoError(u.t, err)
	defer log.Close()
	c := exec.Command("unshare", "--mount", "--propagation=private", "sh", "-c", hardened, "sh", u.host.Path("/"), strconv.Itoa(u.uid), u.release)
	c.Stdout, c.Stderr = log, log
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	env := u.config.Env()
	maps.Copy(env, more)
	for key, value := range env {
		c.Env = append(c.Env, key+"="+value)
	}
	require.NoError(u.t, c.Start())
	u.process = c
	u.t.Cleanup(func() {
		c.Process.Kill() // no error if it has ended
		c.Wait()
		if u.t.Failed() {
			u.t.Log(u.said())
		}
	})
	require.Eventually(u.t, func() bool {
		return concourse.CheckWeb(context.Background(), u.url()).State == concourse.Healthy
	}, patience, tick, "the web does not start")
}

// url is what the charm asks: plain HTTP on this machine, with TLS too.
func (u *unit) url() string { return fmt.Sprintf("http://127.0.0.1:%d", u.config.BindPort) }

func (u *unit) api() *concourse.API {
	return concourse.NewAPI(u.url(), "admin", u.secrets.AdminPassword)
}

// said is the web's log.
func (u *unit) said() string {
	data, err := os.ReadFile(u.log)
	require.NoError(u.t, err)
	return string(bytes.TrimSpace(data))
}

// reload is ExecReload.
func (u *unit) reload() {
	u.t.Helper()
	before := strings.Count(u.said(), "tsa.reloading-config")
	require.NoError(u.t, u.process.Process.Signal(syscall.SIGHUP))
	require.Eventually(u.t, func() bool { return strings.Count(u.said(), "tsa.reloading-config") > before }, patience, tick)
}
