//go:build e2e

package packages

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// engine is a machine with Docker's daemon and runc, as far as gpukit looks at them.
const engine = `
mkdir -p /etc/docker
printf '{\n  "log-driver" : "local", "features": {"x": true}\n}\n' >/etc/docker/daemon.json
printf '#!/bin/sh\necho Docker version 27.5.1, build 1\n' >/usr/bin/dockerd
printf '#!/bin/sh\nexit 1\n' >/usr/bin/runc
mkdir -p /etc/containers/containers.conf.d
chmod 755 /usr/bin/dockerd /usr/bin/runc
`

// use is what a person does after the installation.
const use = `
gpukit cdi list >/out/list
gpukit cdi refresh >/out/refresh 2>&1
gpukit runtime configure docker >/out/configure
cp /etc/docker/daemon.json /out/shared.json
gpukit runtime configure docker --exclusive --set-as-default >/out/exclusive
gpukit runtime configure podman >>/out/exclusive
cp /etc/docker/daemon.json /out/daemon.json
cp /etc/concourse-ci-machine/wrapper.json /out/wrapper.json
stat -c '%a %U' /etc/concourse-ci-machine/wrapper.json >/out/mode
gpukit cdi validate >/out/validate
runc-amd-wrapper wrapper-info >/out/info
gpukit gpu status >/out/status
`

func TestDebIsInstalledUsedAndPurged(t *testing.T) {
	need(t)
	t.Parallel()
	got := inside(t, "mi210x4", engine+`
state >/out/before
dpkg --install /in/gpukit_*.deb /in/rocm-gpu-exporter_*.deb >/out/install 2>&1
dpkg --verify gpukit rocm-gpu-exporter >/out/verify
state >/out/installed
systemd-analyze verify --man=no gpukit-run.socket gpukit-run.service gpukit-cdi.path gpukit-cdi.service gpukit-cdi.timer rocm-gpu-exporter.service rocm-gpu-exporter-users.service >/out/analyze 2>&1 || true
udevadm verify /usr/lib/udev/rules.d/70-gpukit.rules >/out/udev 2>&1 || udevadm --version >>/out/udev
`+use+`
dpkg --install /in/gpukit_*.deb >/out/again 2>&1
cp /etc/docker/daemon.json /out/upgraded.json
dpkg --remove gpukit rocm-gpu-exporter >/out/remove 2>&1
cp /etc/docker/daemon.json /out/removed.json
state >/out/removed
dpkg --purge gpukit rocm-gpu-exporter >/out/purge 2>&1
state >/out/purged
`)
	checkInstalled(t, got)
	checkUse(t, got)
	require.Empty(t, got["verify"])
	require.Equal(t, got["daemon.json"], got["upgraded.json"], "an upgrade changes no engine")
	require.Equal(t, "{\n  \"log-driver\" : \"local\", \"features\": {\"x\": true}\n}\n", got["removed.json"])
	for _, d := range differences(got["before"], got["removed"]) {
		require.Regexp(t, "/etc/default/(gpukit|rocm-gpu-exporter)", d, "only configuration files stay until the purge")
	}
	require.Empty(t, differences(got["before"], got["purged"]))
}

// An administrator masks a unit to keep a package's service off.
func TestMaskedUnitsStayMasked(t *testing.T) {
	need(t)
	t.Parallel()
	got := inside(t, "mi210x4", `
systemctl mask gpukit-cdi.path rocm-gpu-exporter.service 2>/out/mask
state >/out/before
dpkg --install /in/gpukit_*.deb /in/rocm-gpu-exporter_*.deb >/out/install 2>&1
dpkg-query -W -f '${Package} ${db:Status-Status}\n' gpukit rocm-gpu-exporter >/out/status
systemctl is-enabled gpukit-cdi.path gpukit-cdi.service rocm-gpu-exporter.service >/out/enabled || true
dpkg --purge gpukit rocm-gpu-exporter >/out/purge 2>&1
state >/out/purged
`)
	require.Equal(t, "gpukit installed\nrocm-gpu-exporter installed\n", got["status"], got["install"])
	require.Equal(t, "masked\nenabled\nmasked\n", got["enabled"], got["install"])
	require.Empty(t, differences(got["before"], got["purged"]))
}

// What the program does on a machine is in tests/concourse.
func TestDebOfAWholeCIIsInstalledAndPurged(t *testing.T) {
	need(t)
	t.Parallel()
	got := inside(t, "mi210x4", `
state >/out/before
dpkg --install --force-depends /in/concourse-ci-machine_*.deb >/out/install 2>&1
dpkg --verify concourse-ci-machine >/out/verify
concourse-ci-machine --version >/out/version
concourse-ci-machine status >/out/status 2>&1 || echo "exit status $?" >>/out/status
systemd-analyze verify --man=no concourse-ci-machine.service concourse-ci-machine.timer >/out/analyze 2>&1 || true
state >/out/installed
dpkg --purge concourse-ci-machine >/out/purge 2>&1
state >/out/purged
`)
	added := strings.Join(differences(got["before"], got["installed"]), "")
	for _, want := range []string{"+l|777|0:0|./usr/bin/concourse-ci-machine|",
		"+f|755|0:0|./usr/lib/concourse-ci-machine/dispatch|",
		"+f|755|0:0|./usr/lib/concourse-ci-machine/bin/pebble|", "+f|644|0:0|./usr/lib/concourse-ci-machine/config.yaml|",
		"+f|644|0:0|./usr/share/concourse-ci-machine/tasks/verify-gpu-amd.yml|",
		"+f|644|0:0|./usr/lib/systemd/system/concourse-ci-machine.timer|"} {
		require.Contains(t, added, want)
	}
	require.NotRegexp(t, `\+[fd]\|[0-7]*[2367][0-7]?\|0:0\|\./usr/(lib|share)`, added, "only root can write")
	require.Empty(t, got["verify"])
	require.Equal(t, "concourse-ci-machine 1.2.3\n", got["version"])
	require.Equal(t, "this machine runs no CI; to set it up run: sudo concourse-ci-machine up\nexit status 1\n",
		got["status"])
	for _, line := range lines(got["analyze"], "concourse-ci-machine") {
		require.NotRegexp(t, `(?i)unknown|failed|ignoring|not executable`, line)
	}
	require.Empty(t, differences(got["before"], got["purged"]), "the package starts nothing and leaves nothing")
}

func TestRPMIsInstalledUsedAndErased(t *testing.T) {
	need(t)
	t.Parallel()
	got := inside(t, "mi210x4", engine+`
rpm="rpm --nodeps --force-debian"
rpm --initdb
>/usr/share/fish/vendor_completions.d/other.fish # rpm has no record of the fish that dpkg installed
state >/out/before
$rpm --install /in/gpukit_*.rpm /in/rocm-gpu-exporter_*.rpm >/out/install 2>&1
rpm --verify --nodeps gpukit rocm-gpu-exporter >/out/verify || true
state >/out/installed
`+use+`
$rpm --upgrade /in/newer/gpukit_*.rpm /in/newer/rocm-gpu-exporter_*.rpm >/out/again 2>&1
rpm --query gpukit rocm-gpu-exporter >/out/versions
cp /etc/docker/daemon.json /out/upgraded.json
$rpm --erase gpukit rocm-gpu-exporter >/out/remove 2>&1
cp /etc/docker/daemon.json /out/removed.json
state >/out/purged
$rpm --install /in/gpukit_*.rpm >>/out/again 2>&1
systemctl is-enabled gpukit-cdi.path gpukit-run.socket gpukit-gpus gpukit-records >/out/enabled || true
`)
	require.Equal(t, strings.Repeat("enabled\n", 4), got["enabled"], "installed again")
	checkInstalled(t, got)
	checkUse(t, got)
	require.Empty(t, got["verify"])
	require.Regexp(t, `^gpukit-1\.2\.4-1\.\w+\nrocm-gpu-exporter-1\.2\.4-1\.\w+\n$`, got["versions"])
	require.Equal(t, got["daemon.json"], got["upgraded.json"], "an upgrade changes no engine")
	require.Equal(t, "{\n  \"log-driver\" : \"local\", \"features\": {\"x\": true}\n}\n", got["removed.json"])
	require.Empty(t, differences(got["before"], got["purged"]))
}

// A container's image has no systemd. Its rpm database has only these packages.
func TestRPMsAreInstalledUpgradedAndErasedInAnotherRoot(t *testing.T) {
	need(t)
	t.Parallel()
	got := inside(t, "mi210x4", `
mkdir -p /target/bin /target/usr /target/run /target/proc /target/dev /target/var/lib /target/var/tmp && cp /bin/busybox /target/bin/
for n in sh rm rmdir; do ln -s busybox /target/bin/$n; done
mknod -m 666 /target/dev/null c 1 3
mount -t proc proc /target/proc
rpm="rpm --root /target --nodeps"
rpm --root /target --initdb
tree() { find /target \( -path /target/root -o -path /target/proc \) -prune -o -print | sort >/out/$1; }
tree before
$rpm --install --verbose /in/*.rpm >/out/install 2>&1
rpm --root /target --query --all | sort >/out/installed
$rpm --verify concourse-ci-machine gpukit rocm-gpu-exporter >/out/verify 2>&1 || true
chroot /target /usr/bin/gpukit --version >/out/version
chroot /target /usr/bin/concourse-ci-machine --version >>/out/version
echo '# mine' >>/target/etc/default/gpukit
$rpm --upgrade --verbose /in/newer/*.rpm >/out/upgrade 2>&1
rpm --root /target --query --all | sort >/out/upgraded
tail -n 1 /target/etc/default/gpukit >/out/kept
$rpm --erase --verbose concourse-ci-machine gpukit rocm-gpu-exporter >/out/erase 2>&1
rm -f /target/etc/default/gpukit.rpmsave
rmdir /target/etc/default /target/etc || true
tree after
`)
	all := func(version string) string {
		return fmt.Sprintf("concourse-ci-machine-%s-1.x86_64\ngpukit-%[1]s-1.x86_64\nrocm-gpu-exporter-%[1]s-1.x86_64\n", version)
	}
	require.Equal(t, all("1.2.3"), got["installed"], got["install"])
	require.Empty(t, got["verify"])
	require.Equal(t, "gpukit 1.2.3\nconcourse-ci-machine 1.2.3\n", got["version"])
	require.Equal(t, all("1.2.4"), got["upgraded"], got["upgrade"])
	require.Equal(t, "# mine\n", got["kept"])
	for _, log := range []string{"install", "upgrade", "erase"} {
		require.NotRegexp(t, `(?i)error|fail|warning`, strings.ReplaceAll(got[log], "warning: /etc/default/gpukit", ""))
	}
	for _, left := range differences(got["before"], got["after"]) { // a distribution owns /usr/bin
		require.NotRegexp(t, "concourse|gpukit|rocm", left)
	}
}

// checkInstalled expects the files, their modes and the enabled units.
func checkInstalled(t *testing.T, got map[string]string) {
	t.Helper()
	added := strings.Join(differences(got["before"], got["installed"]), "")
	for _, want := range []string{
		"+f|755|0:0|./usr/bin/gpukit|", "+f|755|0:0|./usr/bin/runc-amd-wrapper|", "+f|755|0:0|./usr/bin/rocm-exporter|",
		"+f|644|0:0|./usr/lib/systemd/system/gpukit-cdi.service|", "+f|644|0:0|./usr/lib/systemd/system/gpukit-cdi.path|",
		"+f|644|0:0|./usr/lib/udev/rules.d/70-gpukit.rules|", "+f|644|0:0|./usr/share/bash-completion/completions/gpukit|",
		"+f|644|0:0|./usr/share/man/man1/gpukit-runtime-configure.1.gz|", "+d|755|0:0|./etc/cdi|",
		"+f|644|0:0|./etc/default/rocm-gpu-exporter|", "+f|644|0:0|./usr/share/rocm-gpu-exporter/prometheus-alerts.yaml|",
		"+l|777|0:0|./etc/systemd/system/multi-user.target.wants/gpukit-cdi.path|",
		"+l|777|0:0|./etc/systemd/system/multi-user.target.wants/gpukit-cdi.service|",
		"+l|777|0:0|./etc/systemd/system/multi-user.target.wants/rocm-gpu-exporter.service|",
		"+l|777|0:0|./etc/systemd/system/sockets.target.wants/gpukit-run.socket|",
		"+f|644|0:0|./usr/lib/systemd/system/gpukit-run.service|", "+f|644|0:0|./usr/lib/systemd/system/gpukit-run.socket|",
	} {
		require.Contains(t, added, want)
	}
	require.NotRegexp(t, `\+[a-z]\|[0-7]*[2367][0-7]?\|0:0\|\./usr`, added, "only root can write")
	require.NotRegexp(t, "(?m)^-", added, "no file of another program changes")
	for _, line := range lines(got["analyze"], "gpu") {
		require.NotRegexp(t, `(?i)unknown|failed|ignoring|not executable`, line)
	}
	require.NotRegexp(t, `(?i)rules:\d+`, got["udev"])
}

func checkUse(t *testing.T, got map[string]string) {
	t.Helper()
	require.Contains(t, got["list"], "Found 4 AMD GPU devices\namd.com/gpu=all\namd.com/gpu=0\n")
	require.Contains(t, got["refresh"], "write /etc/cdi/amd.json (missing)")
	require.Contains(t, got["validate"], "CDI spec is valid")
	require.Contains(t, got["configure"], "docker run --rm --runtime amd")
	require.NotContains(t, got["configure"]+got["exclusive"]+got["refresh"], "dispatch")
	require.JSONEq(t, `{"log-driver": "local", "features": {"x": true, "cdi": true}, "runtimes": {"amd": {"path": "/usr/bin/runc-amd-wrapper"}}}`, got["shared.json"])
	require.Contains(t, got["daemon.json"], `"default-runtime": "amd"`)
	require.Equal(t, "600 root\n", got["mode"])
	require.Contains(t, got["info"], "runtime /usr/bin/runc\n")
	require.Contains(t, got["info"], "leases in /run/concourse-ci-machine/gpu-leases\n")
	require.Equal(t, 4, strings.Count(got["info"], " for requested\n"), got["info"])
	require.Contains(t, got["status"], "GPU 3", got["status"])
}

// Modes and times of a checkout differ between machines, and must not reach a package.
func TestTwoBuildsHaveTheSameBytes(t *testing.T) {
	need(t)
	t.Parallel()
	out := pack(t, checkout(t), suite.PackageCompression)
	for _, file := range allPackages {
		require.Equal(t, sum(t, filepath.Join(built, file)), sum(t, filepath.Join(out, file)), file)
	}
	sums, err := exec.Command("sh", "-c", "cd "+built+" && sha256sum --check --strict SHA256SUMS").CombinedOutput()
	require.NoError(t, err, "%s", sums)
}

// Whole programs take minutes with the compression of releases.
func TestPackagesOfReleasesHaveTheSameBytes(t *testing.T) {
	need(t)
	t.Parallel()
	var out [2]string
	for i := range out {
		out[i] = pack(t, smallCheckout(t), "xz")
	}
	for _, file := range allPackages {
		require.Equal(t, sum(t, filepath.Join(out[0], file)), sum(t, filepath.Join(out[1], file)), file)
		if strings.HasSuffix(file, ".deb") {
			text, err := exec.Command("dpkg-deb", "--contents", filepath.Join(out[0], file)).CombinedOutput()
			require.NoError(t, err, "%s", text)
		}
	}
}

// allPackages are the files of this machine's architecture.
var allPackages = func() (files []string) {
	for _, name := range []string{"concourse-ci-machine", "gpukit", "rocm-gpu-exporter"} {
		for _, format := range []string{"deb", "rpm"} {
			files = append(files, fmt.Sprintf("%s_%s.%s", name, runtime.GOARCH, format))
		}
	}
	return files
}()

// checkout returns a copy of what the packages are made of, with other modes and times.
func checkout(t *testing.T) string {
	t.Helper()
	elsewhere := filepath.Join(t.TempDir(), "a", "tree")
	copyTree(t, made, filepath.Join(elsewhere, "bin/packages"))
	for _, dir := range []string{"tools/packages", "src/prometheus_alert_rules", "src/loki_alert_rules", "src/grafana_dashboards", "pipelines/tasks"} {
		copyTree(t, filepath.Join(hosttest.Source(), dir), filepath.Join(elsewhere, dir))
	}
	for _, file := range []string{"LICENSE", "CHANGELOG.md"} {
		text, err := os.ReadFile(filepath.Join(hosttest.Source(), file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(elsewhere, file), text, 0o600))
	}
	return elsewhere
}

// smallCheckout is a checkout with the beginnings of programs.
func smallCheckout(t *testing.T) string {
	t.Helper()
	dir := checkout(t)
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "bin"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() > 1<<20 {
			err = os.Truncate(path, 1<<16)
		}
		return err
	}))
	return dir
}

// pack makes the packages of a checkout and returns their folder.
func pack(t *testing.T, dir, compression string) string {
	t.Helper()
	out := t.TempDir()
	require.NoError(t, packer(dir, "1.2.3", compression, out))
	return out
}

func sum(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// copyTree copies files with other modes and times.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	at := time.Now().Add(-1000 * time.Hour)
	require.NoError(t, filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = os.Chmod(path, 0o600)
		}
		if err == nil {
			err = os.Chtimes(path, at, at)
		}
		return err
	}))
}

func TestPackageThatCannotBeMadeHasItsReason(t *testing.T) {
	need(t)
	t.Parallel()
	dir := smallCheckout(t)
	for name, tt := range map[string]struct {
		args []string
		env  string
		want string
	}{
		"no version": {[]string{"-bin", "x", "-tree", "y", "-o", t.TempDir()}, "",
			"want -bin, -tree, -version and -o, or -repository and -o; see --help"},
		"bad version": {[]string{"-bin", "x", "-tree", "y", "-version", "unknown", "-o", t.TempDir()}, "",
			`the version "unknown" does not begin with a number; run: make packages VERSION=1.2.3`},
		"no program": {[]string{"-bin", "/nowhere", "-tree", "bin/packages/tree", "-version", "1.0.0", "-o", t.TempDir()},
			"", "/nowhere/gpukit"},
		"files of others": {[]string{"-repository", built, "-o", built}, "",
			"cannot replace " + built + ": it is not a repository of these packages; name another folder with APT="},
		"no deb": {[]string{"-repository", "x", "-o", dir}, "", "there is no deb in " + dir + "; run: make packages"},
		"no date": {[]string{"-bin", "x", "-tree", "y", "-version", "1.0.0", "-o", t.TempDir()},
			"SOURCE_DATE_EPOCH=now", `cannot read SOURCE_DATE_EPOCH="now": want seconds since 1970`},
	} {
		c := exec.Command(filepath.Join(hosttest.Source(), "bin/packer"), tt.args...)
		c.Dir, c.Env = dir, append(os.Environ(), tt.env)
		out, err := c.CombinedOutput()
		require.Error(t, err, name)
		require.Contains(t, string(out), tt.want, name)
	}
}
