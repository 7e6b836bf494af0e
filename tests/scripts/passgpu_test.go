//go:build e2e

package scripts

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const box = "juju-4f2a10-0" // the container of rocm-worker/0

var (
	twoAMD   = []map[string]any{card("1002", "0000:83:00.0", 2), card("1002", "0000:03:00.0", 1), card("10de", "0000:0a:00.0", 0)}
	gpu0     = map[string]string{"type": "gpu", "pci": "0000:03:00.0", "gid": "44"}
	addGPU   = "lxc config device add " + box + " gpu0 gpu pci=0000:03:00.0 gid=44"
	markGPU  = "lxc config set " + box + " user.pass-gpu.gpu0=amd\\ 0000:03:00.0"
	addKFD   = "lxc config device add " + box + " kfd unix-char source=/dev/kfd path=/dev/kfd gid=44 required=false"
	markKFD  = "lxc config set " + box + " user.pass-gpu.kfd=amd"
	nothing  = box + " has the GPU at 0000:03:00.0 already; nothing to change"
	rootGPU  = map[string]string{"type": "gpu", "pci": "03:00.0"}
	rootKFD  = map[string]string{"type": "unix-char", "source": "/dev/kfd"}
	firstGPU = map[string]string{"type": "gpu", "id": "1", "gid": "44"}
)

func lines(all ...string) string {
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, "\n") + "\n"
}

func TestPassGPU(t *testing.T) {
	type devices = map[string]map[string]string
	tests := []struct {
		name    string
		cards   []map[string]any
		profile devices
		have    devices
		args    string
		want    string // the lxc commands that change something
		note    string
	}{
		{name: "AMD's on a mixed host, with kfd", cards: oneAMD, want: lines(markGPU, addGPU, markKFD, addKFD)},
		{name: "the charm's profile has kfd", cards: oneAMD, profile: byCharm, want: lines(markGPU, addGPU)},
		{name: "NVIDIA's, without kfd", cards: oneAMD, args: "--vendor nvidia", note: "lxc config set " + box + " nvidia.runtime=true", want: lines(
			strings.Replace(markGPU, "amd\\ 0000:03", "nvidia\\ 0000:0a", 1), strings.Replace(addGPU, "03", "0a", 1))},
		{name: "an address says whose it is", cards: oneAMD, args: "--pci 0A:00.0", want: lines(
			strings.Replace(markGPU, "amd\\ 0000:03", "nvidia\\ 0000:0a", 1), strings.Replace(addGPU, "03", "0a", 1))},
		{name: "one of several by its address", cards: twoAMD, profile: byCharm, args: "--pci=0000:03:00.0", want: lines(markGPU, addGPU)},
		{name: "another name where gpu0 is taken", cards: twoAMD, profile: byCharm, have: devices{"gpu0": gpu0}, args: "--pci 83:00.0",
			want: strings.NewReplacer("gpu0", "gpu1", "0000:03", "0000:83").Replace(lines(markGPU, addGPU))},
		{name: "nothing where all is there", cards: oneAMD, profile: byCharm, have: devices{"gpu0": gpu0}, note: nothing},
		{name: "a wrong group is put right", cards: oneAMD, profile: byCharm, have: devices{"mine": rootGPU, "kfd": rootKFD},
			want: lines("lxc config device set "+box+" mine gid=44", "lxc config device set "+box+" kfd gid=44")},
		{name: "a profile's wrong group is overridden", cards: oneAMD, profile: devices{"k": rootKFD}, have: devices{"gpu0": gpu0},
			want: lines("lxc config set "+box+" user.pass-gpu.k=amd", "lxc config device override "+box+" k gid=44")},
		{name: "one passed by its id counts, with a word on that", cards: oneAMD, profile: byCharm, have: devices{"card": firstGPU}, note: "does not name its address"},
		{name: "one for all cards counts too", cards: oneAMD, profile: byCharm, have: devices{"all": {"type": "gpu", "gid": "44"}}, note: "does not name its address"},
		{name: "another vendor's does not", cards: oneAMD, profile: byCharm, have: devices{"n": {"type": "gpu", "vendorid": "10de", "gid": "44"}}, want: lines(markGPU, addGPU)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Apps["rocm-worker"] = &application{Units: 1}
			w.Cards, w.Profile = tt.cards, tt.profile
			w.Devices[box] = tt.have
			args := append([]string{"rocm-worker/0"}, strings.Fields(tt.args)...)

			r := w.run(t, "pass-gpu.sh", append(args, "--dry-run")...)
			require.Zero(t, r.code, r.err)
			require.Equal(t, tt.want, r.out, "the dry run")
			require.Empty(t, r.called("lxc config"), "a dry run changes nothing")

			r = w.run(t, "pass-gpu.sh", args...)
			require.Zero(t, r.code, r.err)
			require.Equal(t, tt.want, r.out)
			require.Contains(t, r.err, tt.note)
			require.Equal(t, strings.ReplaceAll(tt.want, "\\ ", " "), lines(r.called("lxc config")...))

			r = w.run(t, "pass-gpu.sh", args...)
			require.Zero(t, r.code, r.err)
			require.Empty(t, r.out, "the second run")
			require.Contains(t, r.err, "nothing to change")
		})
	}
}

func TestPassGPURemovesWhatItAdded(t *testing.T) {
	w := newWorld(t)
	w.Apps["rocm-worker"] = &application{Units: 1}
	w.Cards = twoAMD
	theirs := map[string]string{"type": "disk", "source": "/data", "path": "/srv/data"}
	w.Devices[box] = map[string]map[string]string{"data": theirs, "gpu0": {"type": "gpu", "pci": "0000:0a:00.0", "gid": "44"}}
	pass := func(args ...string) result {
		return w.run(t, "pass-gpu.sh", append([]string{"rocm-worker/leader"}, args...)...)
	}

	require.Zero(t, pass("--pci", "0000:03:00.0").code)
	require.Zero(t, pass("--pci", "0000:83:00.0").code)
	require.Len(t, w.Devices[box], 5)

	r := pass("--remove", "--pci", "83:00.0")
	require.Zero(t, r.code, r.err)
	require.Equal(t, lines("lxc config device remove "+box+" gpu2", "lxc config unset "+box+" user.pass-gpu.gpu2"), r.out)
	require.Contains(t, w.Devices[box], "kfd", "another AMD GPU needs it")

	dry := pass("--remove", "--dry-run")
	require.Empty(t, dry.called("lxc config"))
	r = pass("--remove")
	require.Equal(t, dry.out, r.out)
	require.Len(t, w.Devices[box], 2)
	require.Equal(t, theirs, w.Devices[box]["data"])
	require.Empty(t, w.Config[box])

	r = pass("--remove")
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.err, "nothing to change")

	t.Run("what became another device since stays", func(t *testing.T) {
		require.Zero(t, pass("--pci", "0000:03:00.0").code)
		w.Devices[box]["gpu1"]["pci"] = "0000:83:00.0"
		r := pass("--remove")
		require.Zero(t, r.code, r.err)
		require.Contains(t, r.err, "gpu1 of "+box+" is not as this script made it; it stays")
		require.Contains(t, w.Devices[box], "gpu1")
		require.NotContains(t, w.Devices[box], "kfd")
	})
}

func TestPassGPURefuses(t *testing.T) {
	tests := []struct {
		name, args, want string
		change           func(w *world)
	}{
		{name: "several GPUs and none chosen", want: "this host has 2 amd GPUs; choose one with --pci:\n0000:03:00.0\t1\tamdgpu\tamd\tCard 0000:03:00.0\n0000:83:00.0", change: func(w *world) { w.Cards = twoAMD }},
		{name: "no GPU of the vendor", want: "this host has no amd GPU; LXD lists its GPUs with: lxc query /1.0/resources", change: func(w *world) { w.Cards = oneAMD[1:] }},
		{name: "an address without a GPU", args: "--pci 04:00.0", want: "this host has no AMD or NVIDIA GPU at 0000:04:00.0; it has:\n0000:03:00.0"},
		{name: "another vendor's address", args: "--vendor amd --pci 0a:00.0", want: "this host has no amd GPU at 0000:0a:00.0"},
		{name: "no driver", want: "has no driver; on this host run: sudo modprobe amdgpu", change: func(w *world) {
			w.Cards = []map[string]any{card("1002", "0000:03:00.0", 1)}
			delete(w.Cards[0], "driver")
		}},
		{name: "set aside for a virtual machine", want: "bound to vfio-pci", change: func(w *world) {
			w.Cards = []map[string]any{card("1002", "0000:03:00.0", 1)}
			w.Cards[0]["driver"] = "vfio-pci"
		}},
		{name: "no such unit", want: "there is no unit rocm-worker/0 in this model; there are: gpu/0", change: func(w *world) { w.Apps = map[string]*application{"gpu": {Units: 1}} }},
		{name: "a machine added by hand", want: "no LXD container but a machine added by hand", change: func(w *world) { w.Instance = "manual:10.0.0.7" }},
		{name: "a machine that is not there yet", want: "is not started yet; wait until juju status shows it as started", change: func(w *world) { w.Instance = "pending" }},
		{name: "another cloud's machine", want: "is on i-0abc, which is no LXD container of this host; run this on the LXD host", change: func(w *world) { w.Instance = "i-0abc" }},
		{name: "a virtual machine", want: "is a virtual-machine, not a container", change: func(w *world) { w.Type = "virtual-machine" }},
		{name: "LXD can't be asked", want: "cannot ask LXD; is this the LXD host, and is ", change: func(w *world) { w.Fail["lxc list"] = 1 }},
		{name: "the host has no kfd", want: box + " has no /dev/kfd: does this host have it? Run: ls -l /dev/kfd; where it is missing: sudo modprobe amdgpu", change: func(w *world) {
			w.Devices[box], w.Profile, w.Fail["lxc exec"] = map[string]map[string]string{"gpu0": gpu0}, byCharm, 10
		}},
		{name: "Juju can't be asked", want: "juju status fails; log in to the controller", change: func(w *world) { w.Fail["juju status"] = 1 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Apps["rocm-worker"], w.Cards = &application{Units: 1}, oneAMD
			if tt.change != nil {
				tt.change(w)
			}
			r := w.run(t, "pass-gpu.sh", append([]string{"rocm-worker/0"}, strings.Fields(tt.args)...)...)
			require.Equal(t, 1, r.code)
			require.Empty(t, r.out)
			require.Contains(t, r.err, "error: ")
			require.Contains(t, r.err, tt.want)
			require.Empty(t, r.called("lxc config"))
		})
	}
}
