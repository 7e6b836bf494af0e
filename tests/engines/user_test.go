//go:build e2e

package engines

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The image has no group at all, and the group of the machine's nodes differs: video, render
// of Debian and of Ubuntu, and a group of this machine alone. Each user of an image opens
// its GPU.
func TestUserOfAnImageOpensItsGPU(t *testing.T) {
	needPackage(t, "podman", "podman")
	p := podman{root: filepath.Join(dir, "podman"), runRoot: "/run/podman-test"}
	p.load(t)
	for _, group := range []int{44, 110, 992, 4242} {
		describeOf(t, group)
		for _, words := range []string{"", "--user 1000", "--user 1000:1000"} {
			out, err := p.probe("--runtime runc", "--device amd.com/gpu=0 "+words)
			require.NoError(t, err, "%d %s: %s", group, words, out)
			require.Equal(t, first, out, "%d %s", group, words)
		}
	}
}

// Without root the machine's node is in the container, with its mode and its group.
func TestRootlessCDIOpensByTheUsersGroups(t *testing.T) {
	needPackage(t, "podman", "podman")
	needPackage(t, "crun", "crun")
	needPackage(t, "uidmap", "newuidmap")
	for _, group := range []uint32{44, 4242} {
		describeOf(t, int(group))
		a := user(t, group)
		a.load(t)
		for words, want := range map[string]string{
			"":                                    closed,
			"--group-add keep-groups":             first,
			"--group-add keep-groups --user 1000": first,
		} {
			out, err := a.probe("--runtime crun", "--device amd.com/gpu=0 "+words)
			require.NoError(t, err, "%d %s: %s", group, words, out)
			require.Equal(t, want, out, fmt.Sprint(group, " ", words))
		}
	}
}
