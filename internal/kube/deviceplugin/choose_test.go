package deviceplugin

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestPreferredGPUsAreChosenAsLeasesDo(t *testing.T) {
	p := newPlugin(options{}, nil)
	for _, id := range []string{"a", "b", "c", "d"} {
		p.seen.devices = append(p.seen.devices, device{Slot: gpu.Slot{PCI: id}})
		p.seen.leases.GPUs = append(p.seen.leases.GPUs, id)
	}
	const xgmi = lease.LinkXGMI // b with c, a with d
	p.seen.leases.Links = [][]int{{0, 0, 0, xgmi}, {0, 0, xgmi, 0}, {0, xgmi, 0, 0}, {xgmi, 0, 0, 0}}
	for _, c := range []struct {
		free, must []string
		n          int
		want       []string
		err        string
	}{
		{[]string{"d", "c", "b", "a"}, nil, 2, []string{"a", "d"}, ""},
		{[]string{"b", "c", "d"}, nil, 2, []string{"b", "c"}, ""},
		{[]string{"b", "c", "d"}, nil, 1, []string{"d"}, ""},
		{[]string{"a", "b", "c", "d"}, []string{"c"}, 2, []string{"b", "c"}, ""},
		{[]string{"a", "b", "c", "d"}, []string{"c"}, 1, []string{"c"}, ""},
		{[]string{"a", "b", "c", "d"}, []string{"a", "c"}, 3, []string{"a", "b", "c"}, ""},
		{[]string{"a"}, nil, 2, nil, "cannot choose 2 of 1 GPUs"},
		{[]string{"a", "b"}, []string{"a", "b"}, 1, nil, "cannot choose 1 of 2 GPUs, 2 of them for sure"},
		{[]string{"a", "x"}, nil, 1, nil, "cannot give GPU x"},
	} {
		r, err := p.prefer(&v1beta1.PreferredAllocationRequest{ContainerRequests: []*v1beta1.ContainerPreferredAllocationRequest{
			{AvailableDeviceIDs: c.free, MustIncludeDeviceIDs: c.must, AllocationSize: int32(c.n)}}})
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, r.ContainerResponses[0].DeviceIDs)
	}
}

// AMD's own plugin has its socket under the resource's name.
func TestPluginRefusesToCompeteWithAMDs(t *testing.T) {
	p, k, log := started(t, hosttest.ManyGPUs(t, 1), nil)
	k.start()
	turn(t, p)
	w := <-k.plugins
	amd, err := net.Listen("unix", filepath.Join(k.dir, "device-plugins", "amd.com_gpu"))
	require.NoError(t, err)
	turn(t, p)
	require.Contains(t, p.Trouble(), "cannot offer amd.com/gpu: AMD's own device plugin does")
	for range w.lists { // until the kubelet sees that it no longer exists
	}
	turn(t, p)
	require.Empty(t, k.plugins)
	require.NoError(t, amd.Close())
	turn(t, p)
	require.Empty(t, p.Trouble(), log)
	<-k.plugins // it offers them again
}

func TestSecondPluginEnds(t *testing.T) {
	r := hosttest.ManyGPUs(t, 1)
	p, k, _ := started(t, r, nil)
	k.start()
	turn(t, p)
	other := newPlugin(p.options, &bytes.Buffer{})
	require.ErrorContains(t, other.turn(context.Background()), "another gpu-device-plugin does")
	turn(t, p)
	require.Empty(t, p.Trouble())
}

func TestPluginReplacesAKilledOne(t *testing.T) {
	p, k, log := started(t, hosttest.ManyGPUs(t, 1), nil)
	k.start()
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(k.dir, "device-plugins", "concourse-gpu.sock"), Net: "unix"})
	require.NoError(t, err)
	left.SetUnlinkOnClose(false)
	require.NoError(t, left.Close())
	turn(t, p)
	require.Empty(t, p.Trouble(), log)
}

func TestUnitOffersItsOwnGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		gpus, want []string
	}{
		"one":       {[]string{gpu1}, []string{gpu1}},
		"some":      {[]string{gpu2, gpu0}, []string{gpu0, gpu2}},
		"none":      {nil, nil},
		"another's": {[]string{"0000:99:00.0"}, nil},
	} {
		var unit oci.Config
		for _, g := range c.gpus {
			unit.GPUs = append(unit.GPUs, oci.GPU{Name: g})
		}
		require.Equal(t, c.want, offeredOf(t, &unit), name)
	}
	require.Len(t, offeredOf(t, nil), 3, "no unit")
}

func TestMachineThatCannotBeReadChangesNothing(t *testing.T) {
	p, _, w, log := unit(t)
	hosttest.Put(t, p.root, oci.DefaultConfig, "{")
	turn(t, p)
	require.Contains(t, p.Trouble(), "cannot read /etc/concourse-ci-machine/wrapper.json")
	require.Empty(t, w.lists)
	exclusive(t, p.root, 1)
	turn(t, p)
	require.Empty(t, p.Trouble(), log)
	require.Equal(t, map[string]string{gpu0: v1beta1.Healthy}, <-w.lists)
}

func TestProgramWaitsForAKubelet(t *testing.T) {
	r, k := hosttest.ManyGPUs(t, 1), newKubelet(t)
	require.NoError(t, os.RemoveAll(filepath.Join(k.dir, "device-plugins")))
	ctx, end := context.WithCancel(context.Background())
	done := make(chan int)
	var log bytes.Buffer
	go func() {
		done <- Run(ctx, "1", []string{"--path.root=" + string(r), "--kubelet-dir=" + k.dir}, &log, &log)
	}()
	require.NoError(t, os.Mkdir(filepath.Join(k.dir, "device-plugins"), 0o750))
	k.start()
	select {
	case w := <-k.plugins:
		require.Len(t, <-w.lists, 1)
	case <-time.After(time.Minute):
		t.Fatal(log.String())
	}
	end()
	require.Zero(t, <-done)
	left, err := filepath.Glob(filepath.Join(k.dir, "device-plugins", "concourse*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{"--help"}, 0, "Usage: gpu-device-plugin [flags]"},
		{[]string{"--version"}, 0, "gpu-device-plugin 1\n"},
		{[]string{"--devices=env"}, 2, `invalid value "env" for flag --devices: auto, cdi, nodes`},
		{[]string{"--resource-naming-strategy=x"}, 2, "single, mixed"},
		{[]string{"--kubelet-dir=lib"}, 2, "want an absolute path"},
		{[]string{"--replicas=0"}, 2, "invalid value 0 for flag --replicas: want 1 to 100"},
		{[]string{"--nope"}, 2, "unknown flag: --nope; see gpu-device-plugin --help"},
		{[]string{"start"}, 2, `cannot run gpu-device-plugin with "start": want gpu-device-plugin [flags]`},
	} {
		var out bytes.Buffer
		require.Equal(t, c.code, Run(context.Background(), "1", c.args, &out, &out), c.args)
		require.Contains(t, out.String(), c.out)
	}
}
