package oci

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
)

// ofAnEngine makes the testbed's wrapper one that an engine calls by its path.
func (b *testbed) ofAnEngine(t *testing.T) {
	t.Helper()
	b.foreign = true
	b.configure(t, func(c *Config) {
		c.Containers, c.GPUs, c.Visible = Requested, []GPU{gpuA, gpuB}, []string{"AMD_VISIBLE_DEVICES"}
	})
}

// plain is a container of an engine that knows no tasks.
func plain(env ...any) func(map[string]any) {
	return func(spec map[string]any) {
		process := spec["process"].(map[string]any)
		process["args"] = []any{"/bin/sh"}
		process["env"] = env
	}
}

func annotated(pairs map[string]any) func(map[string]any) {
	return func(spec map[string]any) { spec["annotations"] = pairs }
}

// Whoever calls: a container that asks for no GPU is not changed.
func TestContainersOfEnginesGetTheirRequest(t *testing.T) {
	for name, c := range map[string]struct {
		bundle string
		change []func(map[string]any)
		rules  int
	}{
		"says nothing":          {"check", []func(map[string]any){plain()}, 0},
		"none":                  {"check", []func(map[string]any){plain("AMD_VISIBLE_DEVICES=none")}, 0},
		"a variable of nothing": {"check", []func(map[string]any){plain("AMD_VISIBLE_DEVICES=")}, 0},
		"one":                   {"check", []func(map[string]any){plain("AMD_VISIBLE_DEVICES=0")}, 3},
		"all":                   {"check", []func(map[string]any){plain("AMD_VISIBLE_DEVICES=all")}, 5},
		"a count":               {"check", []func(map[string]any){plain("GPU_COUNT=1")}, 3},
		"by CDI's name": {"check",
			[]func(map[string]any){plain("AMD_VISIBLE_DEVICES=amd.com/gpu=0, amd.com/gpu=1")}, 5},
		"all by CDI's name": {"check",
			[]func(map[string]any){plain("AMD_VISIBLE_DEVICES=amd.com/gpu=all")}, 5},
		"by CDI's annotation": {"check",
			[]func(map[string]any){plain(), annotated(map[string]any{"cdi.k8s.io/x": "amd.com/gpu=0"})}, 3},
		"the request and the image": {"check", []func(map[string]any){plain("AMD_VISIBLE_DEVICES=all"),
			annotated(map[string]any{"cdi.k8s.io/x": "amd.com/gpu=0"})}, 3},
		"a request of another maker": {"check",
			[]func(map[string]any){plain(), annotated(map[string]any{"cdi.k8s.io/x": "example.com/gpu=0"})}, 0},
		"with a task's folder":   {"task", nil, 0},
		"the same, and asks":     {"task", []func(map[string]any){plain("AMD_VISIBLE_DEVICES=0")}, 3},
		"with Concourse's first": {"check", []func(map[string]any){env("AMD_VISIBLE_DEVICES=0")}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t)
			b.ofAnEngine(t)
			b.bundle(t, c.bundle, c.change...)
			before := len(b.result(t).Linux.Resources.Devices)
			require.NoError(t, b.create())
			require.Len(t, b.result(t).Linux.Resources.Devices, before+c.rules)
		})
	}
	b := newTestbed(t)
	b.ofAnEngine(t)
	b.bundle(t, "check", plain("AMD_VISIBLE_DEVICES=amd.com/gpu=7"))
	require.ErrorContains(t, b.create(), `AMD_VISIBLE_DEVICES="amd.com/gpu=7": "7" is not a GPU that this machine gives`)
}

func TestConcoursesContainersAreServedAsTasksOrNotAtAll(t *testing.T) {
	for name, rules := range map[string]int{"task": 5, "check": 0, "get": 0} {
		b := newTestbed(t)
		b.ofAnEngine(t)
		b.foreign = false
		b.bundle(t, name, env("AMD_VISIBLE_DEVICES=all"))
		before := len(b.result(t).Linux.Resources.Devices)
		require.NoError(t, b.create())
		require.Len(t, b.result(t).Linux.Resources.Devices, before+rules, name)
	}
}

// The caller decides: a container chooses its mounts, environment and first process.
func TestNoContainerOfAnotherEnginePassesAsATask(t *testing.T) {
	everything := func(b *testbed) {
		require.NoError(t, os.MkdirAll(b.path("srv/out_rw"), 0o755))
		b.put(t, "cas.pem", "x")
		b.configure(t, func(c *Config) {
			c.Containers, c.Visible, c.Env = Requested, []string{"AMD_VISIBLE_DEVICES"}, map[string]string{"TOKEN": "secret"}
			c.Folders = &Folders{Root: b.path("srv"), Containers: All}
			c.Tools, c.CACertificates = b.path("srv"), b.path("cas.pem")
		})
	}
	for name, c := range map[string]struct {
		program string
		root    string
		task    bool
	}{
		"Concourse's": {"runc", "/run/containerd/runc/concourse", true},
		"Docker's": {"/opt/concourse-ci-machine/engines/runc-amd-wrapper",
			"/run/docker/runtime-runc/moby", false},
		"Docker's by the worker's containerd": {"runc", "/run/containerd/runc/moby", false},
		"by hand":                             {"runc", "/run/runc", false},
		"of a namespace with its name":        {"runc-amd-wrapper", "/run/containerd/runc/concourse", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t)
			everything(b)
			b.foreign = !calledByConcourse([]string{c.program})
			b.bundle(t, "task")
			before := b.text(t)
			require.NoError(t, b.call("--root="+c.root, "create", "--bundle", b.path("bundle"), "c1"))
			if !c.task {
				require.True(t, before == b.text(t), b.text(t))
				return
			}
			for _, given := range []string{"/dev/kfd", "srv/out_rw", "TOKEN=secret", "cas.pem"} {
				require.Contains(t, b.text(t), given)
			}
		})
	}
}

func TestUnitsEnvironmentIsItsTasksAlone(t *testing.T) {
	needsRoot(t)
	b := withEnv(t)
	b.foreign = true
	b.configure(t, func(c *Config) {
		c.Containers, c.Visible, c.Env = Requested, []string{"AMD_VISIBLE_DEVICES"}, map[string]string{"TOKEN": "secret"}
	})
	b.bundle(t, "check", plain("AMD_VISIBLE_DEVICES=all"))
	require.NoError(t, b.create())
	require.Contains(t, b.text(t), "/dev/kfd")
	require.NotContains(t, b.text(t), "secret")
	require.NoFileExists(t, b.path("state/c1"))
}

// On a unit. Its config serves Concourse.
func TestContainerOfAnEngineIsRefusedGPUsOfConcourse(t *testing.T) {
	for env, refused := range map[string]bool{"AMD_VISIBLE_DEVICES=0": true, "AMD_VISIBLE_DEVICES=all": true,
		"GPU_COUNT=1": true, "GPU_COUNT=0": false, "AMD_VISIBLE_DEVICES=void": false, "X=1": false} {
		b := newTestbed(t)
		b.configure(t, func(c *Config) { c.Visible = []string{"AMD_VISIBLE_DEVICES"} })
		b.bundle(t, "check", plain(env))
		require.NoError(t, b.create(), "before Concourse's runc it is nobody's business: %s", env)
		b.foreign = true
		if err := b.create(); refused {
			require.ErrorContains(t, err, "cannot give the container a GPU: "+b.path("wrapper.json")+" gives "+
				"them only to Concourse's tasks [container c1]")
		} else {
			require.NoError(t, err, env)
		}
	}
}

func TestRefusalToAnEngineNamesItsRemedy(t *testing.T) {
	b := newTestbed(t)
	b.ofAnEngine(t)
	b.bundle(t, "check", plain("AMD_VISIBLE_DEVICES=0"))
	b.node("/dev/dri/renderD128", 0o660, 992, unix.Mkdev(226, 130))
	require.ErrorContains(t, b.create(), "the command cdi generate writes the spec again, run the task again after that")
	require.NoError(t, os.Remove(b.path("amd.json")))
	require.ErrorContains(t, b.create(), "CDI spec "+b.path("amd.json")+" is missing; the command cdi generate writes it")
}

// Concourse runs none of its containers again, and a container never gets fewer GPUs than it
// requests.
func TestMissingGPURefusesContainersOfAnEngine(t *testing.T) {
	for containers, remedy := range map[Containers]string{Requested: "the command cdi generate writes the spec again",
		All: "the unit writes the spec again at its next hook"} {
		for _, request := range []string{"AMD_VISIBLE_DEVICES=1", "AMD_VISIBLE_DEVICES=all", "GPU_COUNT=all",
			"GPU_COUNT=2"} {
			b := newTestbed(t)
			b.ofAnEngine(t)
			b.configure(t, func(c *Config) {
				c.Containers, c.GPUs, c.Visible = containers, []GPU{gpuA, gpuB}, []string{"AMD_VISIBLE_DEVICES"}
			})
			b.bundle(t, "check", plain(request))
			before := b.text(t)
			delete(b.nodes, "/dev/dri/renderD129")
			require.EqualError(t, b.create(), "cannot give the task /dev/dri/renderD129: /dev/dri/renderD129 is missing on "+
				"this machine, though CDI spec "+b.path("amd.json")+" lists it; "+remedy+", or restore the GPU [container c1]",
				request)
			require.Equal(t, before, b.text(t))
		}
	}
}

// Without a file an engine's wrapper uses its defaults, Concourse's refuses.
func TestConfigFileIsNeededBeforeConcoursesRuncOnly(t *testing.T) {
	for name, engine := range map[string]bool{"runc": false, "/opt/runtime/runc": false,
		"runc-amd-wrapper": true, "/usr/local/bin/runc-amd-wrapper": true} {
		w := newWrapper(realMachine(), []string{name}, []string{EnvRuntime + "=/bin/true"})
		require.Equal(t, engine, w.foreign, name)
		w.config = DefaultConfig
		_, err := os.Stat(DefaultConfig)
		if err == nil {
			t.Skip("this machine is a unit")
		}
		s, err := w.readConfig()
		if !engine {
			require.ErrorContains(t, err, "cannot read "+DefaultConfig)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, Config{Runtime: "/bin/true", Containers: Requested, Specs: []string{"/etc/cdi/amd.json"},
			GPUs:    []GPU{{Name: "all", CDI: "amd.com/gpu=all"}},
			Visible: []string{"AMD_VISIBLE_DEVICES"}, State: defaultState, Nodes: DefaultNodes}, s.Config)
		data, err := json.Marshal(s.Config)
		require.NoError(t, err)
		require.NoError(t, CheckConfig(data), "it can be written to the file")
		w.config = "/nowhere/wrapper.json"
		w.engine = false
		_, err = w.readConfig()
		require.ErrorContains(t, err, "cannot read /nowhere/wrapper.json", "one that is named has to be there")
	}
}

// acl is an access control list as the kernel reports it.
func acl(rows ...[3]uint32) []byte {
	out := []byte{2, 0, 0, 0}
	for _, r := range rows {
		out = binary.LittleEndian.AppendUint16(out, uint16(r[0]))
		out = binary.LittleEndian.AppendUint16(out, uint16(r[1]))
		out = binary.LittleEndian.AppendUint32(out, r[2])
	}
	return out
}

func TestWithoutRootTheUsersRightsDecide(t *testing.T) {
	needsRoot(t) // of a user namespace
	owner, group := [3]uint32{1, 6, 1<<32 - 1}, [3]uint32{4, 6, 1<<32 - 1}
	var mine [3]uint32
	for name, c := range map[string]struct {
		mode, uid, gid uint32
		opens          bool
		acl            []byte
		uidInside      int
		keep           bool
		refusal        string
	}{
		"closed": {mode: 0o660, uid: overflowGID, gid: overflowGID,
			refusal: "cannot give the container /dev/kfd: its mode is 0660, and this user may not open it; as " +
				"root run: setfacl -m u:<user>:rw /dev/kfd"},
		"by a group": {mode: 0o660, uid: overflowGID, gid: overflowGID, opens: true,
			refusal: "this user may open it by a group only, which the container does not keep; give it " +
				"podman's --group-add keep-groups, with crun, or as root run: setfacl"},
		"by a group that stays": {mode: 0o660, uid: overflowGID, gid: overflowGID, opens: true, keep: true},
		"by a list of others": {mode: 0o660, uid: overflowGID, gid: overflowGID, opens: true,
			acl: acl(owner, [3]uint32{2, 6, 77}, group), refusal: "by a group only"},
		"by a list, to read": {mode: 0o660, uid: overflowGID, gid: overflowGID, opens: true,
			acl: acl(owner, [3]uint32{2, 4, mine[2]}, group), refusal: "by a group only"},
		"by a list": {mode: 0o660, uid: overflowGID, gid: overflowGID, opens: true,
			acl: acl(owner, [3]uint32{2, 6, mine[2]}, group)},
		"by a list, as another inside": {mode: 0o660, uid: overflowGID, gid: overflowGID, opens: true,
			acl: acl(owner, [3]uint32{2, 6,
				mine[2]}), uidInside: 5, refusal: "this user may open it, and the container's user 5 is " +
				"another; run it as root of the container, or with podman's --userns=keep-id"},
		"a list that is cut": {mode: 0o660, uid: overflowGID, gid: overflowGID, opens: true,
			acl: acl(owner)[:7], refusal: "by a group only"},
		"his own": {mode: 0o600, gid: overflowGID, opens: true},
		"his own, as another inside": {mode: 0o600, gid: overflowGID, opens: true, uidInside: 5,
			refusal: "the container's user 5 is another"},
		"open to all":                   {mode: 0o666, uid: overflowGID, gid: overflowGID},
		"a group with a number, in LXD": {mode: 0o660, uid: overflowGID, gid: 44},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t)
			b.ofAnEngine(t)
			b.uidMap = func() ([]byte, error) { return []byte("         0       1000          1\n"), nil }
			b.euid = uint32(os.Geteuid())
			for path := range b.nodes {
				st := b.nodes[path]
				st.Mode, st.Uid, st.Gid = unix.S_IFCHR|c.mode, c.uid, c.gid
				if c.uid == 0 {
					st.Uid = b.euid
				}
				b.nodes[path] = st
			}
			b.access = func(string, uint32) error {
				if !c.opens {
					return unix.EACCES
				}
				return nil
			}
			b.getxattr = func(_, name string, dest []byte) (int, error) {
				require.Equal(t, "system.posix_acl_access", name)
				if c.acl == nil {
					return 0, unix.ENODATA
				}
				return copy(dest, c.acl), nil
			}
			b.mknod = func(string, uint32, int) error { t.Fatal("an engine without root makes no node"); return nil }
			b.bundle(t, "check", plain("AMD_VISIBLE_DEVICES=0"), func(spec map[string]any) {
				linux := spec["linux"].(map[string]any)
				delete(linux, "uidMappings")
				delete(linux, "gidMappings")
				linux["namespaces"] = []any{map[string]any{"type": "mount"}}
				spec["process"].(map[string]any)["user"] = map[string]any{"uid": c.uidInside + int(b.euid), "gid": 0}
				if c.keep {
					spec["annotations"] = map[string]any{keepGroups: "1"}
				}
			})
			before := len(b.result(t).Mounts)
			err := b.create()
			if c.refusal != "" {
				require.ErrorContains(t, err, c.refusal)
				return
			}
			require.NoError(t, err)
			r := b.result(t)
			require.Equal(t, []edits.Mount{bound("/dev/kfd", "/dev/kfd"), bound("/dev/dri/card0",
				"/dev/dri/card0"), bound("/dev/dri/renderD128", "/dev/dri/renderD128")}, r.added(before))
			require.Empty(t, r.Linux.Devices)
		})
	}
}

// The machine's root has no number in a user namespace, and its files are trusted; before
// Concourse's runc such a file is refused.
func TestFilesOfARootWithoutANumber(t *testing.T) {
	for text, c := range map[string]struct {
		engine bool
		uidMap string
	}{
		"":                                {true, "0 1000 1\n1 100000 65536\n"},
		"it belongs to user 65534":        {true, "         0          0 4294967295\n"},
		"it belongs to user 65534, not t": {false, "0 1000 1\n"},
	} {
		b := newTestbed(t)
		b.euid = 0
		b.engine = c.engine
		b.uidMap = func() ([]byte, error) { return []byte(c.uidMap), nil }
		err := b.trusted(&unix.Stat_t{Uid: overflowGID, Mode: unix.S_IFREG | 0o644})
		if text == "" {
			require.NoError(t, err)
			require.Error(t, b.trusted(&unix.Stat_t{Uid: overflowGID, Mode: unix.S_IFREG | 0o664}))
			require.Error(t, b.trusted(&unix.Stat_t{Uid: 12, Mode: unix.S_IFREG | 0o644}))
			continue
		}
		require.ErrorContains(t, err, text)
	}
}

// An engine that keeps a user's own number inside gives the bundle to another.
func TestBundleOfAnEngineWithoutRoot(t *testing.T) {
	b := newTestbed(t)
	b.ofAnEngine(t)
	b.engine = true
	b.uidMap = func() ([]byte, error) { return []byte("0 1000 1\n"), nil }
	require.Equal(t, anyOwner, b.owner())
	b.engine = false
	require.Equal(t, b.euid, b.owner())
}
