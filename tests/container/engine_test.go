//go:build e2e

package container

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// withPodman makes the container's image this machine's system, if Podman is, with a
// description of GPUs that the task does not have, and puts another image's files in it.
func (b *bed) withPodman() {
	b.t.Helper()
	mount := func(destination, kind, source string, options ...string) {
		b.mounts = append(b.mounts, map[string]any{"destination": destination, "type": kind, "source": source, "options": options})
	}
	for _, path := range []string{"/usr", "/lib", "/lib64"} {
		mount(path, "bind", path, "rbind", "ro")
	}
	for _, path := range []string{"/dev/shm", "/run", "/var"} {
		mount(path, "tmpfs", "tmpfs", "nosuid", "nodev")
	}
	mount("/sys", "sysfs", "sysfs", "nosuid", "noexec", "nodev")
	mount("/sys/fs/cgroup", "cgroup", "cgroup", "rw", "nosuid", "noexec", "nodev")
	b.bundle()
	c := b.config() // the engine's groups must be below the container's, to go with them
	linux := c["linux"].(map[string]any)
	linux["namespaces"] = append(linux["namespaces"].([]any), map[string]any{"type": "cgroup"})
	b.write("bundle/config.json", c)

	root := b.path("bundle/rootfs")
	for from, to := range map[string]string{"/etc": root, b.busybox(): root + "/image/bin/busybox"} {
		require.NoError(b.t, os.MkdirAll(filepath.Dir(to), 0o755))
		out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
		require.NoError(b.t, err, "%s", out)
	}
	require.NoError(b.t, os.MkdirAll(filepath.Join(root, filepath.Dir(cdi.Path)), 0o755))
	for file, kind := range map[string]string{cdi.Path: cdi.Kind, filepath.Dir(cdi.Path) + "/other.json": "example.com/other"} {
		require.NoError(b.t, os.WriteFile(root+file, []byte(`{"cdiVersion":"0.5.0","kind":"`+kind+`","devices":[{"name":"0","containerEdits":{"env":["OF=image"]}}]}`), 0o644))
	}
}

// podman runs a container inside the container. The words are podman's.
func (b *bed) podman(words string) map[string]string {
	b.t.Helper()
	const inner = `for d in kfd dri/renderD128 dri/renderD129 dri/renderD130; do
  if [ ! -e /dev/$d ]; then :; elif e=$( { exec 3<>/dev/$d; } 2>&1); then echo "$d: opens"; else echo "$d: ${e##*: }"; fi
done; [ -z "$OF" ] || echo "of: $OF"
`
	// Debian's crun, Podman's first choice, wants to raise a limit that not every machine lets it.
	p := process(0, "podman --root /var/podman --runroot /run/podman --storage-driver vfs --cgroup-manager cgroupfs --events-backend none "+
		"--log-level fatal --runtime runc run --rm --network none --pids-limit 0 "+words+" --rootfs /image /bin/busybox sh -c '"+inner+"' 2>&1")
	caps := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD", "CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE",
		"CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE"}
	p["capabilities"] = map[string]any{"bounding": caps, "effective": caps, "permitted": caps, "inheritable": caps}
	p["env"] = []string{"PATH=/bin:/usr/bin:/usr/sbin", "HOME=/run"}
	b.write("process", p)
	return found(b.output(nil, "exec", "--process", b.path("process"), "--detach", b.id))
}

// Whatever the task's image has, and whatever more the machine has.
func TestPodmanInsideAPrivilegedTaskGivesTheTasksGPUsAlone(t *testing.T) {
	need(t)
	if lacks := suite.Lacks("podman", "podman"); lacks != "" {
		if os.Getenv("E2E") == "1" && !strings.Contains(","+os.Getenv("E2E_WITHOUT")+",", ",podman,") {
			t.Fatal(lacks)
		}
		t.Skip(lacks)
	}
	onEachCgroup(t, func(t *testing.T, _ string) {
		for version, runc := range runcs(t) {
			t.Run("runc "+version, func(t *testing.T) {
				u := newUnit(t, 3)
				b := u.container(settings[0], "AMD_VISIBLE_DEVICES=0,2")
				b.use(runc)
				b.withPodman()
				require.NoError(t, b.up())
				both := map[string]string{"kfd": "opens", "dri/renderD128": "opens", "dri/renderD130": "opens"}
				one := map[string]string{"kfd": "opens", "dri/renderD130": "opens"}
				for words, want := range map[string]map[string]string{
					"--device amd.com/gpu=all":                      both,
					"--device amd.com/gpu=all --user 1234":          both,
					"--device amd.com/gpu=0 --device amd.com/gpu=1": both,
					"--device amd.com/gpu=1":                        one,
					"--device amd.com/gpu=GPU-2":                    one,
					"--device example.com/other=0":                  {"of": "image"},
					"":                                              {},
				} {
					require.Equal(t, want, b.podman(words), words)
				}
				for _, other := range []string{"2", "GPU-1"} {
					require.Contains(t, b.podman("--device amd.com/gpu=" + other)["Error"], "unresolvable CDI devices amd.com/gpu="+other)
				}
			})
		}
	})
}
