//go:build e2e

package packages

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// node is an sshd on 127.0.0.1 that the names root@node and ann@node lead to. ann may use
// sudo without a password. systemctl replaces systemd's, which does not run here: it has
// one service, which is active once it is started.
const node = `
mkdir -p /run/sshd /root/.ssh && chmod 700 /root/.ssh
useradd --create-home --shell /bin/bash ann && mkdir /home/ann/.ssh
echo 'ann ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ann
ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
cp /root/.ssh/id_ed25519.pub /home/ann/.ssh/authorized_keys && chown -R ann: /home/ann/.ssh
port=$((20000 + $(od -An -N2 -tu2 /dev/urandom) % 20000))
/usr/sbin/sshd -o Port=$port -o ListenAddress=127.0.0.1 -o PidFile=/run/sshd.pid
printf 'Host node\nHostName 127.0.0.1\nPort %s\n' $port >/root/.ssh/config
dpkg --install /in/gpukit_*.deb >/dev/null 2>&1
cat >/usr/local/bin/systemctl <<'EOF'
#!/bin/sh
case "$*" in
*is-active*rocm-gpu-exporter*) [ -e /etc/systemd/system/multi-user.target.wants/rocm-gpu-exporter.service ] ;;
*) exec /bin/systemctl "$@" ;;
esac
EOF
chmod 755 /usr/local/bin/systemctl
try() { # NAME COMMAND...
	name=$1; shift
	"$@" >/out/$name 2>/out/$name.err </dev/null && echo 0 >/out/$name.code || echo $? >/out/$name.code
}
`

func TestExporterIsInstalledOverSSH(t *testing.T) {
	need(t)
	t.Parallel()
	got := inside(t, "mi210x4", node+`
try unknown gpukit detect root@node
ssh-keyscan -p $port 127.0.0.1 2>/dev/null | sed "s/^127.0.0.1/[127.0.0.1]:$port/; s/^\[\[/[/; s/\]:$port\]:$port/]:$port/" >/root/.ssh/known_hosts
state >/out/before
try facts gpukit detect --json root@node
try absent gpukit uninstall-exporter root@node
try nofile gpukit install-exporter root@node
try wrong gpukit install-exporter --package=$(echo /in/rocm-gpu-exporter_*.rpm) root@node
try install gpukit install-exporter --package=/in ann@node
dpkg-query -W -f '${Version}' rocm-gpu-exporter >/out/version
try after gpukit detect ann@node
ls /tmp | grep gpukit >/out/left || true
try remove gpukit uninstall-exporter ann@node
state >/out/purged
rm /etc/sudoers.d/ann
try sudo gpukit install-exporter --package=/in ann@node
chmod 000 /home/ann/.ssh/authorized_keys
try denied gpukit detect ann@node
`)
	require.Equal(t, "1\n", got["unknown.code"])
	require.Contains(t, got["unknown.err"], "cannot connect to root@node: its host key is not in known_hosts, or changed; compare it at the first connection: ssh root@node")
	require.Equal(t, "0\n", got["facts.code"], got["facts.err"])
	var facts struct {
		Machine, Manager, Installed string
		Root, KFD                   bool
		GPUs                        []struct{ PCI, Driver string }
	}
	require.NoError(t, json.Unmarshal([]byte(got["facts"]), &facts))
	require.Len(t, facts.GPUs, 4)
	require.Equal(t, "amdgpu", facts.GPUs[0].Driver)
	require.True(t, facts.Root && facts.KFD && facts.Manager == "apt-get" && facts.Installed == "", got["facts"])
	require.Equal(t, "rocm-gpu-exporter is not installed on root@node\n", got["absent"])
	require.Contains(t, got["nofile.err"], "download it from the release, or name its folder with --package=PATH")
	require.Contains(t, got["wrong.err"], "the machine needs rocm-gpu-exporter_")
	require.Equal(t, "0\n", got["install.code"], got["install.err"])
	require.Contains(t, got["install"], " runs on ann@node: http://node:9401/\n")
	require.Equal(t, "1.2.3", got["version"])
	require.Contains(t, got["after"], "rocm-gpu-exporter 1.2.3 runs\n")
	require.Empty(t, got["left"], "the copied package is removed")
	require.Equal(t, "rocm-gpu-exporter is removed from ann@node\n", got["remove"], got["remove.err"])
	for _, d := range differences(got["before"], got["purged"]) {
		require.Regexp(t, `var/lib/(apt|systemd)|var/lib/sudo|/home/ann`, d, "apt and sudo keep records of their own")
	}
	require.Contains(t, got["sudo.err"], "without a terminal sudo must need no password there, or connect as root")
	require.Contains(t, got["denied.err"], "first make this work: ssh ann@node")
}
