//go:build e2e

package concourse

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/standin"
)

// foreign lists the operator's files and users on a machine, each file with its sum, mode,
// owner and time. Its clusters are stopped.
func (u *unit) foreign() string {
	u.t.Helper()
	return u.must(`for f in /etc/postgresql/15/main /etc/postgresql/15/concourse /var/lib/postgresql/15/main /var/lib/postgresql/15/concourse /srv/cache \
	/var/lib/concourse/models /var/lib/concourse/disk /var/lib/concourse/worker/cache /etc/concourse-ci-machine/notes; do
	[ ! -e $f ] || find $f -printf '%p %y %m %U:%G %T@ %l ' \( -type f -exec sha256sum {} \; -o -printf '\n' \); done
grep -E '^(concourse|ann):' /etc/passwd /etc/group`)
}

// packages lists the packages of a machine.
func (u *unit) packages() string {
	u.t.Helper()
	return u.must(`dpkg-query -W -f '${Package} ${Version} ${Status}\n'`)
}

// psql runs a statement on an operator's cluster, which it starts and stops.
func (u *unit) psql(cluster, text string) string {
	u.t.Helper()
	return u.must(`pg_ctlcluster 15 ` + cluster + ` start && runuser -u postgres -- psql --quiet --tuples-only --no-align --cluster 15/` + cluster +
		` --dbname=postgres --command="` + text + `"; pg_ctlcluster 15 ` + cluster + ` stop`)
}

// The operator works on the machine before up, while up fails, and while the CI runs.
func TestPurgeKeepsWhatIsNotOurs(t *testing.T) {
	need(t)
	tgz := filepath.Join(built, "stand-in-purge.tgz") // if the machine sees it
	require.NoError(t, standin.Release(tgz, filepath.Join(built, "bin", "concourse")))
	u := newMachine(t, 64, "no-gpu")
	u.must("rm -rf /var/cache/apt/archives/*.deb; mkdir -p /srv/cache; useradd ann")

	u.must("mkdir -m 750 /var/lib/concourse/data && echo mine >/var/lib/concourse/data/file")
	out, err := u.run("concourse-ci-machine up --release " + tgz)
	require.Error(t, err)
	require.Contains(t, out, "cannot set up this machine: /var/lib/concourse/data is in a folder of the CI and not from this CI; move it away")
	require.Equal(t, "mine", u.must("cat /var/lib/concourse/data/file"))
	u.must("mv /var/lib/concourse/data /srv/cache/data")

	// Without a network up fails. Until the next one, the operator installs packages, one of
	// which PostgreSQL needs, and makes a user.
	u.must("mv /etc/apt/sources.list /root/; echo 'deb [trusted=yes] file:/nowhere ./' >/etc/apt/sources.list")
	out, err = u.run("concourse-ci-machine up --release " + tgz)
	require.Error(t, err)
	require.Contains(t, out, "cannot set up the database: ")
	u.must("mv /root/sources.list /etc/apt/ && apt-get update && apt-get install --yes --no-install-recommends openssh-client libpq5 && useradd --system --user-group concourse")
	packages := u.packages()
	u.onMachine("up --release " + tgz)
	require.Contains(t, u.must("dpkg-query -W -f '${Package} ' 'postgresql*'"), "postgresql-15 ")
	u.must(`mkdir -p /var/lib/concourse/models /var/lib/concourse/disk /var/lib/concourse/worker/cache &&
head -c 100000 /dev/urandom >/var/lib/concourse/models/m.bin && head -c 100000 /dev/urandom >/srv/cache/c.bin && echo n >/etc/concourse-ci-machine/notes &&
mount -t tmpfs tmpfs /var/lib/concourse/disk && echo d >/var/lib/concourse/disk/d && mount --bind /srv/cache /var/lib/concourse/worker/cache`)
	before := u.foreign()
	out = u.onMachine("purge --yes")
	t.Log(out)
	require.Contains(t, out, "could not remove all of /var/lib/concourse: a file system is mounted on /var/lib/concourse/worker/cache; it stays")
	require.Equal(t, before, u.foreign())
	require.Equal(t, packages, u.packages(), "the packages of PostgreSQL are purged, and no others")
	u.must("umount /var/lib/concourse/disk /var/lib/concourse/worker/cache && rm -r /var/lib/concourse/models /etc/concourse-ci-machine /srv/cache/c.bin")

	// A cluster of the operator in the PostgreSQL that up installed. The mount points are
	// still there.
	u.onMachine("up --release " + tgz)
	u.must("rmdir /var/lib/concourse/disk /var/lib/concourse/worker/cache")
	packages = u.packages()
	u.must("pg_createcluster 15 main")
	u.psql("main", "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
	before = u.foreign()
	out = u.onMachine("purge --yes")
	t.Log(out)
	require.Contains(t, out, "could not purge all of PostgreSQL's packages: that would drop the cluster 15/main, which is not the CI's; they stay")
	require.Equal(t, before, u.foreign())
	require.Equal(t, packages, u.packages())
	require.Equal(t, "7", u.psql("main", "SELECT n FROM kept"))

	// A cluster of the operator that has the name of the CI.
	u.must("pg_createcluster 15 concourse && echo 'host all all 10.0.0.0/8 scram-sha-256' >>/etc/postgresql/15/concourse/pg_hba.conf")
	u.psql("concourse", "CREATE TABLE kept (n int); INSERT INTO kept VALUES (8)")
	before = u.foreign()
	u.onMachine("up --release " + tgz)
	require.Equal(t, before, u.foreign(), "up takes no cluster over")
	u.onMachine("purge --yes")
	require.Equal(t, before, u.foreign())
	require.Equal(t, "8", u.psql("concourse", "SELECT n FROM kept"))
	require.Equal(t, "concourse\nmain", u.must("ls /etc/postgresql/15"), "the CI's own cluster is dropped")
	require.Empty(t, u.must("systemctl --failed --no-legend"))
}
