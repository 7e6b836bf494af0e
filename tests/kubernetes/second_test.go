//go:build kubernetes

package kubernetes

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// member is a node of the cluster. All nodes have the devices and the network of one machine.
type member struct {
	name, ip, subnet string
	root             host.Root
	enter            []string // starts a program on the node
}

var first = member{name: "node", ip: nodeIP, subnet: "10.88.0.0/16", root: "/"}

const secondName = "second"

// suffix keeps the node's files and logs apart from those of the first.
func (m member) suffix() string {
	if m.name == first.name {
		return ""
	}
	return "-" + m.name
}

// group is the control group that the node's pods are below.
func (m member) group() string {
	group := "/" + filepath.Base(dir)
	if m.name == first.name {
		return group
	}
	return filepath.Join(group, m.name)
}

// inside returns the command that runs argv on the node.
func (m member) inside(argv []string) []string {
	return append(m.enter[:len(m.enter):len(m.enter)], argv...)
}

func (m member) newPart(t *testing.T, name string, argv ...string) *part {
	t.Helper()
	return newPart(t, name+m.suffix(), m.inside(argv)...)
}

// ownFolders replaces what a kubelet, containerd and the leases of GPUs write.
const ownFolders = `set -e
mount -t tmpfs -o mode=755 tmpfs /run
cp -a /etc /run/etc
mount --bind /run/etc /etc
for path in /var/lib /var/log; do mount -t tmpfs -o mode=755 tmpfs $path; done
mkdir /run/ready
exec sleep 100000`

// newSecond adds a node with its own /run, /etc, /var/lib and /var/log to the cluster.
func newSecond(t *testing.T, containerd string) member {
	t.Helper()
	m := member{name: secondName, ip: "10.77.0.2", subnet: "10.89.0.0/16"}
	address := []string{m.ip + "/24", "dev", "node0"}
	out, err := exec.Command("ip", append([]string{"addr", "add"}, address...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	t.Cleanup(func() {
		out, err := exec.Command("ip", append([]string{"addr", "del"}, address...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	})
	pid := fmt.Sprint(newPart(t, "folders"+m.suffix(), "unshare", "--mount", "sh", "-c", ownFolders).c.Process.Pid)
	m.root = host.Root("/proc/" + pid + "/root")
	eventually(t, "the node has its folders", func() (string, bool) { return "", m.root.Exists("/run/ready") })
	m.enter = []string{"nsenter", "--mount=/proc/" + pid + "/ns/mnt", "--"}
	startNode(t, m, containerd)
	return m
}
