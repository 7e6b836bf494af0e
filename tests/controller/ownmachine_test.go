//go:build controller

package controller

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// restore replaces the database that Juju's web made by the machine's own, while no hook runs.
const restore = `set -eu
systemctl stop concourse-server
systemd-run --quiet --wait --pipe --property=EnvironmentFile=/var/lib/concourse/config.env sh -c \
	'PGPASSWORD=$CONCOURSE_POSTGRES_PASSWORD exec pg_restore --clean --if-exists --no-owner --single-transaction \
	--host="$CONCOURSE_POSTGRES_HOST" --port="$CONCOURSE_POSTGRES_PORT" --username="$CONCOURSE_POSTGRES_USER" \
	--dbname="$CONCOURSE_POSTGRES_DATABASE" /var/lib/postgresql/concourse.dump'
systemctl start concourse-server`

// ownMachine moves a machine that runs a whole CI without Juju to a model of Juju.
func (s *site) ownMachine(t *testing.T, m *mirror) {
	const name, model, app, unit = "own", "own-machine", "ci", "ci/0"
	inside := func(line string) string {
		out, err := s.Command("lxc", "exec", name, "--", "/bin/sh", "-c", line).CombinedOutput()
		require.NoError(s.T, err, "%s: %s", line, out)
		return strings.TrimSpace(string(out))
	}
	keys := func() string {
		return inside("cd /var/lib && sha256sum concourse/keys/tsa_host_key concourse/keys/session_signing_key concourse-worker/keys/worker_key")
	}
	f := s.newFly(t, model, app)
	var address, before, history string
	builds := func() string {
		var list []struct{ Name, Status string }
		f.ask(&list, "builds", "-j", "kept/job")
		var b strings.Builder
		for i := range list {
			b.WriteString(list[len(list)-1-i].Name + " " + list[len(list)-1-i].Status + "\n")
		}
		return b.String()
	}

	s.Sub(t, "a machine of its own runs a CI without Juju", func(t *testing.T) {
		dir := t.TempDir()
		c := exec.Command("make", "package-"+runtime.GOARCH, "PACKAGES="+dir, "COMPRESSION=zstd", "VERSION=1.2.3")
		c.Dir = "../.."
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		debs, err := filepath.Glob(dir + "/concourse-ci-machine_*.deb")
		require.NoError(t, err)
		require.Len(t, debs, 1)
		release, err := filepath.Glob(m.folder + "/v" + m.new.number + "/*.tgz")
		require.NoError(t, err)
		require.Len(t, release, 1)
		s.long(t, "lxc", "launch", imageAlias, name, "-c", "security.nesting=true")
		s.until("the machine has an address", func() bool {
			address, _, _ = strings.Cut(s.Run("", "lxc", "list", name, "--columns=4", "--format=csv"), " ")
			return address != ""
		})
		s.long(t, "lxc", "file", "push", debs[0], name+"/var/tmp/ci.deb")
		s.long(t, "lxc", "file", "push", release[0], name+"/var/tmp/release.tgz")
		inside("dpkg --install /var/tmp/ci.deb")
		inside("mkdir -p /etc/concourse-ci-machine && umask 077 && echo compute-runtime: none >/etc/concourse-ci-machine/config.yaml")
		fmt.Println(inside("concourse-ci-machine up --release /var/tmp/release.tgz"))
		_, password, _ := strings.Cut(inside("concourse-ci-machine get-admin-password"), "password: ")
		password, _, _ = strings.Cut(password, "\n")
		out, err = f.command("login", "-c", "http://"+address+":8080", "-u", "admin", "-p", password).CombinedOutput()
		require.NoError(t, err, "%s", out)
		f.pipeline()
		require.True(t, f.build())
		before, history = keys(), builds()
		inside("concourse-ci-machine down")
		inside(`port=$(sed -n 's/^port = \([0-9]*\).*/\1/p' /etc/postgresql/*/concourse_*/postgresql.conf)
sudo -u postgres sh -c "umask 077 && pg_dump --format=custom --no-owner --port=$port concourse >~/concourse.dump"`)
	})
	s.Sub(t, "Juju takes the machine over, with its keys", func(t *testing.T) {
		s.juju("add-model", model)
		s.juju("model-config", "--model", model, "update-status-hook-interval=10s")
		key := s.operatorKey(t)
		inside("mkdir -p -m 700 /root/.ssh && echo '" + key + "' >>/root/.ssh/authorized_keys && systemctl start ssh")
		s.juju("add-machine", "--model", model, "ssh:root@"+address)
		s.juju("deploy", "--model", model, filepath.Join(s.folder, "postgresql.charm"), "postgresql")
		s.juju("deploy", "--model", model, filepath.Join(s.folder, "first", charmName), app, "--to", "0", "--config", "mode=all",
			"--config", "compute-runtime=none", "--config", "version="+m.new.number, "--config", "release-mirror="+m.url,
			"--config", "release-sha256="+m.new.sum)
		s.juju("integrate", "--model", model, app+":postgresql", "postgresql:database")
		s.comesTo(model, unit, "active: Web server and worker ready (v")
		require.Contains(t, s.model(model).unit(unit).statusLine(), "http://"+address+":8080", "not the bridge of the tasks")
		require.Equal(t, before, keys())
	})
	s.Sub(t, "its history comes along", func(t *testing.T) {
		s.juju("exec", "--model", model, "--unit", unit, "--", restore)
		s.comesTo(model, unit, "active: Web server and worker ready (v")
		s.until("the admin logs in", func() bool {
			out, err := f.command("login", "-c", "http://"+address+":8080", "-u", "admin", "-p", s.password(model, app)).CombinedOutput()
			return err == nil || !strings.Contains(string(out), "refused")
		})
		require.Equal(t, history, builds())
		s.until("a build runs", f.build)
		require.Contains(t, builds(), history)
		out, err := s.Command("lxc", "exec", name, "--", "concourse-ci-machine", "up").CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "Juju manages this machine")
	})
	s.Sub(t, "the machine goes with its model", func(t *testing.T) {
		s.juju("destroy-model", "--no-prompt", "--destroy-storage", "--force", "--no-wait", model)
		s.long(t, "lxc", "delete", "--force", name)
	})
}

// operatorKey is the public key of the operator's juju.
func (s *site) operatorKey(t *testing.T) string {
	t.Helper()
	out, err := s.operator(t.Context(), nil, "sh", "-c", `mkdir -p -m 700 /root/.ssh && echo 'StrictHostKeyChecking accept-new' >/root/.ssh/config && cat "$JUJU_DATA"/ssh/*.pub`).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}
