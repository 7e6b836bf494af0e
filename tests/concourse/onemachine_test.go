//go:build e2e

package concourse

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/standin"
)

// newMachine starts a machine without Juju, with the package's files.
func newMachine(t *testing.T, n int, hardware string, changes ...func(*unit)) *unit {
	t.Helper()
	debs, err := debian.Repository(t.Context())
	require.NoError(t, err)
	return newUnitOf(t, "machine", n, hardware, "", false, append(changes, func(u *unit) {
		require.NoError(t, u.guest.AddRepository(t.Context(), debs))
		require.NoError(t, u.guest.AddPackage(charmDir(), hosttest.Source()))
	})...)
}

// onMachine runs a command line of the package that must succeed.
func (u *unit) onMachine(line string) string {
	u.t.Helper()
	return u.must("concourse-ci-machine " + line)
}

// files lists all files of the machine with their content's sum, mode and owner. What logs,
// caches, apt and the test itself write is left out, and the files of users: packages leave
// the users that they make.
func (u *unit) files() string {
	u.t.Helper()
	return u.must(`cd / && find . -xdev \( -path ./proc -o -path ./sys -o -path ./run -o -path ./dev -o -path ./tmp -o -path ./var/tmp -o -path ./var/log \
-o -path ./var/cache -o -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./var/lib/systemd -o -path './etc/passwd*' -o -path './etc/group*' -o -path './etc/*shadow*' -o -path ./opt/debs -o -path ./root \
-o -path .` + built + ` -o -path .` + u.Dir + ` \) -prune -o -printf '%p %y %m %U:%G %l ' \( -type f -exec sha256sum {} \; -o -printf '\n' \) | sort`)
}

// killed runs a command of the package, and kills it after some lines of progress.
func (u *unit) killed(args string, lines int) {
	u.t.Helper()
	argv := u.guest.Enter([]string{"PATH=" + guest.Path}, "/bin/sh", "-c", "echo $$; exec concourse-ci-machine "+args)
	c := exec.Command(argv[0], argv[1:]...)
	out, err := c.StdoutPipe()
	require.NoError(u.t, err)
	require.NoError(u.t, c.Start())
	in := bufio.NewScanner(out)
	require.True(u.t, in.Scan())
	pid := in.Text()
	for range lines {
		if !in.Scan() {
			break
		}
	}
	u.run("kill -KILL " + pid) // it may have ended
	for in.Scan() {            // what it started ends with its pipe, or goes on
	}
	c.Wait()
}

// killedDpkg kills up, apt-get and dpkg while dpkg works. $1 is the release's path.
const killedDpkg = `concourse-ci-machine up --release "$1" >/dev/null &
until [ -n "$(ls /var/lib/dpkg/updates)" ]; do kill -0 $! || exit 1; done
for p in /proc/[0-9]*; do
	case $(cat $p/comm 2>/dev/null) in dpkg | apt-get | concourse-ci-ma*) kill -KILL ${p#/proc/} ;; esac
done
wait
[ -n "$(ls /var/lib/dpkg/updates)" ]`

// installsConfined shows that apt works as the timer's service runs it: that service finishes
// the installation of a database that was interrupted.
func installsConfined(u *unit) {
	u.t.Helper()
	const dir = "/run/systemd/system/concourse-ci-machine.service.d"
	u.must("mkdir -p " + dir + " && printf '[Service]\nExecStart=\nExecStart=/usr/bin/apt-get install --yes --reinstall --no-install-recommends " +
		"postgresql-common passwd\nEnvironment=DEBIAN_FRONTEND=noninteractive\n' >" + dir + "/apt.conf && systemctl daemon-reload && systemctl start concourse-ci-machine.service")
	require.Contains(u.t, u.must("systemctl show --value --property=NoNewPrivileges concourse-ci-machine.service"), "yes")
	u.t.Logf("%s", u.must("systemd-analyze security --no-pager concourse-ci-machine.service | tail -n 1"))
	u.must("rm -r " + dir + " && systemctl daemon-reload")
}

// This needs no release: a program that replaces Concourse answers the health checks.
// Everything otherwise is real: systemd, apt, PostgreSQL, Pebble and the exporter.
func TestOneMachineGoesUpAndIsPurged(t *testing.T) {
	need(t)
	tgz := filepath.Join(built, "stand-in-one.tgz") // if the machine sees it
	require.NoError(t, standin.Release(tgz, filepath.Join(built, "bin", "concourse")))
	u := newMachine(t, 60, "amd")
	u.must("touch -d 2000-01-01 /etc/hostname && rm -rf /var/cache/apt/archives/*.deb")
	before := u.files()

	out, err := u.run("concourse-ci-machine status")
	require.Error(t, err)
	require.Contains(t, out, "to set it up run: sudo concourse-ci-machine up")
	require.Contains(t, u.onMachine("plan"), "write /etc/systemd/system/concourse-server.service (missing)")
	require.Equal(t, before, u.files(), "plan changes nothing")

	u.must("systemd-run --quiet --unit=hog systemd-socket-activate --listen=8080 /bin/cat")
	until(t, func() bool { return strings.Contains(u.must("ss --tcp --listening --numeric --no-header"), ":8080 ") },
		"nothing listens")
	out, err = u.run("concourse-ci-machine up")
	require.Error(t, err)
	require.Contains(t, out, "port 8080, which the web needs, is used by systemd-socket")
	require.Contains(t, out, "write another web-port to /etc/concourse-ci-machine/config.yaml")
	u.must("systemctl stop hog")

	u.must("set -- " + tgz + "\n" + killedDpkg)
	for i := range 20 {
		u.killed("up --release "+tgz, 1+4*i)
	}
	begin := time.Now()
	out = u.onMachine("up --release " + tgz)
	t.Logf("up after 20 kills, %.0f s:\n%s", time.Since(begin).Seconds(), out)
	require.Contains(t, out, "active: Web server and worker ready (v8.2.5) http://10.99.0.70:8080 (GPU: 1x AMD)")
	require.Contains(t, out, "tags       gpu compute-runtime=rocm rocm gpu-count=1 gfx=gfx1100")
	require.Empty(t, u.must("systemctl --failed --no-legend"))
	require.NotContains(t, u.must("ss --tcp --listening --numeric --no-header"), ":5432", "the database answers on its socket only")
	require.Equal(t, "600", u.must("stat -c %a /etc/concourse-ci-machine/config.yaml"))

	file := read(u, "/etc/concourse-ci-machine/config.yaml")
	out, err = u.run("concourse-ci-machine set gpu-sharing=many web-prt=80")
	require.Error(t, err)
	require.Contains(t, out, "web-prt: no such option; did you mean web-port")
	require.Contains(t, out, `gpu-sharing: "many" is not one of`)
	require.Equal(t, file, read(u, "/etc/concourse-ci-machine/config.yaml"))
	u.onMachine("set gpu-sharing=exclusive")
	require.Contains(t, read(u, "/etc/concourse-ci-machine/wrapper.json"), `"leases"`)
	u.onMachine("reset gpu-sharing")
	require.Equal(t, file, read(u, "/etc/concourse-ci-machine/config.yaml"))

	u.must("rm /etc/cdi/amd.json /etc/systemd/system/concourse-server.service && systemctl daemon-reload && systemctl stop concourse-server && " +
		"userdel concourse && systemctl start concourse-ci-machine.service")
	require.Contains(t, read(u, "/etc/cdi/amd.json"), "amd.com/gpu", "the timer's service repairs what somebody removed")
	require.Equal(t, "active", u.state(concourse.WebUnit))
	require.Contains(t, u.onMachine("status"), "active: Web server and worker ready")
	installsConfined(u)
	require.NotEmpty(t, u.onMachine("get-admin-password"))
	out, err = u.run("concourse-ci-machine land-worker forse=true")
	require.Error(t, err)
	require.Contains(t, out, "cannot run concourse-ci-machine land-worker")

	table := "SELECT count(*) FROM kept"
	sql := func(text string) string {
		return u.must(`runuser -u postgres -- psql --quiet --tuples-only --no-align --port "$(sed -n 's/^port = \([0-9]*\).*/\1/p' /etc/postgresql/*/concourse_*/postgresql.conf)" --dbname=concourse --command="` + text + `"`)
	}
	sql("CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
	u.must("iptables -N CONCOURSE-OPERATOR && ip link add concourse0 type bridge") // a real worker makes them
	u.onMachine("down")
	require.NotRegexp(t, "(?i)concourse", u.must("iptables-save && ip link"))
	require.Equal(t, "inactive", u.state(concourse.WebUnit))
	require.Equal(t, "inactive", u.state(concourse.Unit))
	u.must("systemctl start concourse-ci-machine.service")
	require.Equal(t, "inactive", u.state(concourse.Unit), "what is down stays down")
	out, err = u.run("concourse-ci-machine status")
	require.Error(t, err)
	require.Contains(t, out, "down: ")
	u.onMachine("up --release " + tgz)
	require.Equal(t, "1", sql(table))

	out, err = u.run("concourse-ci-machine purge </dev/null")
	require.Error(t, err)
	require.Contains(t, out, "give --yes")
	for i := range 5 {
		u.killed("purge --yes", 2+5*i)
	}
	if out, err = u.run("concourse-ci-machine purge --yes"); err != nil { // the last kill came too late
		require.Contains(t, out, "this machine runs no CI")
	}
	require.Equal(t, before, u.files(), "purge leaves the machine as it was")
	require.Empty(t, u.must("systemctl --failed --no-legend"))
	_, err = u.run("id concourse")
	require.Error(t, err, "the user of the web is removed")
}

// downRemovesTheNetworkOfTasks shows with Concourse's own rules that down leaves none, and that
// tasks have a network again after up.
func downRemovesTheNetworkOfTasks(u *unit, f *fly) {
	u.t.Helper()
	newOutside(u.t).put("git/greeting", "hello from outside")
	f.must("set-pipeline", "-n", "-p", "network", "-c", f.write("network.yml",
		strings.ReplaceAll(pipeline, "path: echo, args: [hello]", "path: wget, args: [-q, -O, -, "+outsideAt+"/git/greeting]")))
	f.must("unpause-pipeline", "-p", "network")
	require.Contains(u.t, f.must("trigger-job", "-j", "network/build", "-w"), "hello from outside")
	const network = "iptables-save && ip6tables-save && ip link && find /var/lib -path '*/cni/*'"
	made := u.must(network)
	for _, want := range []string{"CONCOURSE-OPERATOR", "CNI-FORWARD", "10.80.", "fd9c:", "concourse0", "cni-loopback-"} {
		require.Contains(u.t, made, want)
	}
	u.onMachine("down")
	require.NotRegexp(u.t, `(?i)concourse|CNI-|10\.80\.|fd9c:`, u.must(network))
	u.onMachine("up")
	require.Contains(u.t, f.must("trigger-job", "-j", "network/build", "-w"), "hello from outside")
}

// A real Concourse: from nothing to a green build on the machine's GPU, and a second machine
// that joins as a worker.
func TestOneMachineIsACI(t *testing.T) {
	tgz := releaseTarball(t)
	u := newMachine(t, 62, "amd")
	u.must("echo CONCOURSE_CONTAINERD_V6_ENABLE=true >" + concourse.OperatorEnvFile)
	begin := time.Now()
	out := u.onMachine("up --release " + tgz)
	t.Logf("up took %.0f s:\n%s", time.Since(begin).Seconds(), out)
	require.Contains(t, out, "active: Web server and worker ready (v8.2.5) http://10.99.0.72:8080 (GPU: 1x AMD)")
	_, password, _ := strings.Cut(u.onMachine("get-admin-password"), "password: ")
	password, _, _ = strings.Cut(password, "\n")
	require.Contains(t, u.must("fly --version"), "8.2.5")
	f := newFly(t, t.TempDir(), "http://10.99.0.72:8080", password)
	f.must("set-pipeline", "-n", "-p", "gpu", "-c", f.write("gpu.yml", strings.ReplaceAll(pipeline, "path: echo, args: [hello]", "path: sh, args: [-c, ls -l /dev/kfd /dev/dri]")))
	f.must("unpause-pipeline", "-p", "gpu")
	out = f.must("trigger-job", "-j", "gpu/build", "-w")
	t.Logf("a build succeeded %.0f s after the first command:\n%s", time.Since(begin).Seconds(), out)
	require.Contains(t, out, "renderD128")
	require.Contains(t, out, "succeeded")
	downRemovesTheNetworkOfTasks(u, f)

	second := newMachine(t, 63, "no-gpu")
	line := u.onMachine("invite")
	line = line[strings.Index(line, "'"):]
	out = second.onMachine("up --release " + tgz + " --join " + line)
	accept := out[strings.Index(out, "sudo concourse-ci-machine accept ")+len("sudo concourse-ci-machine "):]
	u.onMachine(accept)
	until(t, func() bool {
		return len(strings.Split(strings.TrimSpace(f.must("workers")), "\n")) == 2
	}, "the second machine's worker does not register")
	require.Contains(t, second.onMachine("status"), "active: Worker ready (v8.2.5)")
	name := accept[strings.Index(accept, "'")+1:]
	name = name[:strings.Index(name, " ")]
	u.onMachine("dismiss " + name)
	require.NotContains(t, u.onMachine("status"), "joined")

	// The same over ssh. A host that ssh does not know is refused.
	for _, m := range []*unit{u, second} {
		m.must("apt-get update && apt-get install --yes --no-install-recommends openssh-server openssh-client")
	}
	u.must("ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519")
	second.must("mkdir -p -m 700 /root/.ssh && cat >/root/.ssh/authorized_keys <<'EOF'\n" + u.must("cat /root/.ssh/id_ed25519.pub") + "\nEOF\n" +
		"systemctl restart ssh")
	refused, err := u.run("concourse-ci-machine add-worker root@10.99.0.73 </dev/null")
	require.Error(t, err)
	require.Contains(t, refused, "its host key is not in known_hosts")
	u.must("echo 10.99.0.73 $(cat <<'EOF'\n" + second.must("cat /etc/ssh/ssh_host_ed25519_key.pub") + "\nEOF\n) >>/root/.ssh/known_hosts")
	t.Log(u.onMachine("add-worker root@10.99.0.73 </dev/null"))
	require.Regexp(t, "joined +"+name, u.onMachine("status"))
}
