package worker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// D43, D45: the exact texts for each machine and setting, because users search for them.
func TestGPUDecisionOnEveryHost(t *testing.T) {
	var b strings.Builder
	decide := func(name string, inv gpu.Inventory, m machine.Machine, runtime, ids string) {
		g := DecideGPUs(Observed{Observed: role.Observed{
			Config: roletest.Config(t, map[string]any{"compute-runtime": runtime, "gpu-device-ids": ids}), Machine: m,
		}, GPUs: inv})
		fmt.Fprintf(&b, "%s: compute-runtime=%s gpu-device-ids=%s\n", name, runtime, ids)
		if len(g.Chosen) > 0 {
			fmt.Fprintf(&b, "  ready%s, tags %s\n", g.Suffix(), strings.Join(beacon.Tags(nil, gpuTags(g, g.Chosen)), ","))
		} else {
			require.Empty(t, g.Suffix())
			if tags := beacon.Tags(nil, gpuTags(g, g.Chosen)); len(tags) > 0 {
				fmt.Fprintf(&b, "  tags %s\n", strings.Join(tags, ","))
			}
		}
		for _, c := range g.Causes {
			fmt.Fprintf(&b, "  %s: %s\n", c.Kind, c)
		}
	}
	hosts := map[string]host.Root{}
	for _, name := range hosttest.HostNames() {
		hosts[name] = hosttest.Host(t, name)
	}
	hosts["64 GPUs"] = hosttest.ManyGPUs(t, 64)
	for _, name := range append(hosttest.HostNames(), "64 GPUs") {
		inv, err := gpu.Discover(hosts[name])
		require.NoError(t, err)
		m := machine.Observe(hosts[name])
		for _, runtime := range []string{"none", "auto", "cuda"} {
			decide(name, inv, m, runtime, "all")
		}
		for _, ids := range []string{"all", "0", "0,2-3", "7"} {
			decide(name, inv, m, "rocm", ids)
		}
	}
	hosttest.Golden(t, "testdata/gpus.golden", b.String())
}

func TestEveryInvalidDeviceIDIsNamed(t *testing.T) {
	o := observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm", "gpu-device-ids": "0,9,GPU-0,x"})
	g := DecideGPUs(o)
	require.Len(t, g.Causes, 3)
	for _, c := range g.Causes {
		require.Equal(t, status.Blocked, c.Kind)
		require.Contains(t, c.Text, "gpu-device-ids: ")
	}
	require.Empty(t, g.Chosen)
	require.Len(t, g.All, 4, "the CDI spec still describes them")
}

// LXD creates passed-through nodes as root:root by default.
func TestNodesWithoutAGroupForTasksAreExplained(t *testing.T) {
	const inside, root = "0 1000000 1000000000\n", "its group is root"
	for name, tt := range map[string]struct {
		uidMap, owner, why string
		want               int
	}{
		"unprivileged container": {inside, "0660 0 0", root, 2},
		"a group of the host":    {inside, "0660 0 65534", "its group has no number in this container", 2},
		"open for all":           {inside, "0666 0 65534", "", 0},
		"privileged container":   {"         0          0 4294967295\n", "0660 0 0", root, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, "amd")
			hosttest.Put(t, r, "/proc/self/uid_map", tt.uidMap)
			for _, node := range []string{"/dev/kfd", "/dev/dri/renderD128"} {
				text, err := r.ReadText(node)
				require.NoError(t, err)
				number, _, _ := strings.Cut(text, " ")
				hosttest.Put(t, r, node, number+" "+tt.owner+"\n")
			}
			o := observed(t, r, map[string]any{"compute-runtime": "rocm"})
			g := DecideGPUs(o)
			require.Len(t, g.Causes, tt.want, "%v", g.Causes)
			require.Equal(t, tt.want == 0, len(g.Chosen) == 1)
			for _, c := range g.Causes {
				require.Regexp(t, `tasks can't open \S+: `+tt.why+` — on the LXD host run: lxc config device (set|override) `+
					o.Machine.Hostname, c.String())
			}
		})
	}
}

// Juju 4 applies no LXD profile of a charm: /dev/kfd is a device of the container, and a
// new container lacks it.
func TestKFDTextDependsOnJujuVersion(t *testing.T) {
	for juju, c := range map[string]struct{ missing, closed string }{
		"":          {"no /dev/kfd — on the LXD host run: lxc ", "lxc config device override "},
		"3.6.11":    {"no /dev/kfd — on the LXD host run: lxc ", "lxc config device override "},
		"4.1-beta2": {"no /dev/kfd: Juju 4 has no LXD profiles of charms; ", "lxc config device set "},
		"10.0":      {"no /dev/kfd: Juju 4 has no ", "lxc config device set "},
	} {
		m := machine.Machine{Manager: wellknown.Manager{Name: "c"}, Container: "lxc"}.Under(juju)
		var missing, closed, foreign GPUs
		explainKFD(&missing, gpu.KFD{State: gpu.KFDAbsent}, m)
		require.Len(t, missing.Causes, 1)
		require.True(t, strings.HasPrefix(missing.Causes[0].String(), c.missing), juju)
		require.Contains(t, missing.Causes[0].String(), "run: "+m.Manager.PassKFD(), juju)
		explainGroups(&closed, gpu.KFD{State: gpu.KFDPresent, Node: host.Node{Path: "/dev/kfd", Mode: 0o660}}, m)
		require.Contains(t, closed.Causes[0].String(), c.closed+"c kfd gid=44 mode=0660 (", juju)
		unmapped := GPUs{}
		explainGroups(&unmapped, gpu.KFD{State: gpu.KFDPresent, Node: host.Node{Path: "/dev/kfd", Mode: 0o660, GID: gpu.OverflowID}}, m)
		require.Contains(t, unmapped.Causes[0].String(), "tasks can't open /dev/kfd: its group has no number in this container — ")
		explainKFD(&foreign, gpu.KFD{State: gpu.KFDUnreadable}, m)
		require.Contains(t, foreign.Causes[0].String(), c.closed+"c kfd gid=44 mode=0660", juju)
	}
}
