package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const gpu0, gpu1 = "0000:04:00.0", "0000:0b:00.0"

// started returns a driver that has looked at a machine.
func started(t *testing.T, r host.Root) (*driver, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	hosttest.Put(t, r, "/run/concourse-ci-machine/.keep", "")
	hosttest.Put(t, r, "/proc/sys/kernel/random/boot_id", "boot-1\n")
	d := newDriver(options{root: r, config: oci.DefaultConfig, node: "node"}, &log)
	d.turn(context.Background())
	require.Empty(t, d.Trouble(), log.String())
	return d, &log
}

// An attribute is a promise to the authors of claims, and AMD's names are theirs already.
func TestDevicesOfMachines(t *testing.T) {
	for _, name := range []string{"amd", "mi210x4", "mi300x-cpx", "apu-gfx1103", "no-gpu"} {
		t.Run(name, func(t *testing.T) {
			d, _ := started(t, hosttest.Host(t, name))
			devices := d.devices()
			for _, one := range devices {
				require.LessOrEqual(t, len(one.Attributes)+len(one.Capacity), 32, "the API's limit")
			}
			data, err := json.MarshalIndent(devices, "", " ")
			require.NoError(t, err)
			hosttest.Golden(t, "testdata/"+name+".golden", string(data)+"\n")
		})
	}
}

// claimOfGPUs returns an allocated claim.
func claimOfGPUs(uid types.UID, gpus ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train", UID: uid},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}}}
	for _, name := range gpus {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: Name, Pool: "node", Device: name})
	}
	return c
}

const device0, device1 = "gpu-0000-04-00-0", "gpu-0000-0b-00-0"

func prepared(t *testing.T, d *driver, c *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	t.Helper()
	results, err := d.PrepareResourceClaims(context.Background(), []*resourceapi.ResourceClaim{c})
	require.NoError(t, err)
	return results[c.UID]
}

func unprepare(t *testing.T, d *driver, c *resourceapi.ResourceClaim) {
	t.Helper()
	o := kubeletplugin.NamespacedObject{UID: c.UID, NamespacedName: types.NamespacedName{Namespace: c.Namespace, Name: c.Name}}
	results, err := d.UnprepareResourceClaims(context.Background(), []kubeletplugin.NamespacedObject{o})
	require.NoError(t, err)
	require.Equal(t, map[types.UID]error{c.UID: nil}, results)
}

// After a kill another driver goes on from the leases alone.
func TestClaimLeasesItsGPUsUntilItIsUnprepared(t *testing.T) {
	r := hosttest.ManyGPUs(t, 2)
	d, _ := started(t, r)
	first, second := claimOfGPUs("1", device0), claimOfGPUs("2", device0, device1)
	got := prepared(t, d, first)
	require.NoError(t, got.Err)
	require.Equal(t, []kubeletplugin.Device{{Requests: []string{"gpu"}, PoolName: "node", DeviceName: device0, CDIDeviceIDs: []string{"gpu.amd.com/gpu=" + gpu0}}}, got.Devices)
	require.ErrorContains(t, prepared(t, d, second).Err, "is held by claim team/train")

	d, _ = started(t, r)
	require.NoError(t, prepared(t, d, first).Err, "again")
	require.Empty(t, d.devices()[0].Taints, "the scheduler knows its claims")
	unprepare(t, d, first)
	unprepare(t, d, first)
	require.NoError(t, prepared(t, d, second).Err)

	admin := claimOfGPUs("3", device0)
	yes := true
	admin.Status.Allocation.Devices.Results[0].AdminAccess = &yes
	got = prepared(t, d, admin)
	require.NoError(t, got.Err, "a monitor needs no lease")
	require.Len(t, got.Devices, 1)
	unprepare(t, d, admin)
	require.ErrorContains(t, prepared(t, d, first).Err, "is held by claim team/train")
}

// Otherwise the kubelet forgets the claim, and its GPU is leased until a reboot.
func TestClaimIsNotUnpreparedBeforeTheFirstLook(t *testing.T) {
	r := hosttest.ManyGPUs(t, 1)
	d, _ := started(t, r)
	c := claimOfGPUs("1", device0)
	require.NoError(t, prepared(t, d, c).Err)
	hosttest.Put(t, r, oci.DefaultConfig, "{")
	d = newDriver(options{root: r, config: oci.DefaultConfig, node: "node"}, io.Discard)
	d.turn(t.Context())
	_, err := d.UnprepareResourceClaims(t.Context(), []kubeletplugin.NamespacedObject{{UID: c.UID}})
	require.ErrorContains(t, err, "cannot read which GPUs are the unit's")
	require.NoError(t, r.Remove(oci.DefaultConfig))
	unprepare(t, d, c)
	d.turn(t.Context())
	require.False(t, d.seen.States[0].Held)
}

func TestClaimsThatCannotBePrepared(t *testing.T) {
	d, _ := started(t, hosttest.ManyGPUs(t, 1))
	require.ErrorContains(t, prepared(t, d, claimOfGPUs("1", "gpu-0000-99-00-0")).Err, "this node has no such GPU now")
	other := claimOfGPUs("1", device0)
	other.Status.Allocation.Devices.Results[0].Driver = "nic.example"
	require.Empty(t, prepared(t, d, other).Devices, "not its own")
	for parameters, why := range map[string]string{
		`{"apiVersion":"gpu.resource.amd.com/v1alpha1","kind":"GpuConfig"}`:                 "",
		`{"apiVersion":"gpu.resource.amd.com/v1alpha1","kind":"GpuConfig","share":"4"}`:     "which has no fields",
		`{"apiVersion":"gpu.resource.amd.com/v1alpha1","kind":"GpuConfig","share":{"n":4}}`: "cannot apply the parameters",
		`[]`: "cannot apply the parameters",
	} {
		c := claimOfGPUs("1", device0)
		c.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: Name, Parameters: runtime.RawExtension{Raw: []byte(parameters)}}}}}
		if why == "" {
			require.NoError(t, prepared(t, d, c).Err)
			continue
		}
		require.ErrorContains(t, prepared(t, d, c).Err, why)
	}
}

// quarantine writes the record of a GPU that tasks do not get.
func quarantineGPU(t *testing.T, r host.Root, since time.Time) {
	t.Helper()
	require.NoError(t, quarantine.RecordFile.Write(r, quarantine.Record{At: since, Policy: quarantine.Auto, GPUs: []quarantine.GPU{
		{Ref: quarantine.Ref{Name: gpu0}, State: quarantine.Quarantined, QuarantinedBy: quarantine.ByHealth, Since: since, QuarantinedSince: &since, Fault: &health.Fault{Kind: health.Hang}}}}))
}

func TestQuarantineIsATaint(t *testing.T) {
	r := hosttest.ManyGPUs(t, 2)
	d, log := started(t, r)
	running := claimOfGPUs("1", device0)
	require.NoError(t, prepared(t, d, running).Err)
	since := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	quarantineGPU(t, r, since)
	d.reported[evidence{claimOf("team", "train", "1"), gpu0, since}] = true // no cluster here
	d.turn(context.Background())
	devices := d.devices()
	require.Empty(t, devices[1].Taints)
	require.Len(t, devices[0].Taints, 1)
	taint := devices[0].Taints[0]
	require.Equal(t, since.Unix(), taint.TimeAdded.Unix())
	taint.TimeAdded = nil
	require.Equal(t, resourceapi.DeviceTaint{Key: "gpu.amd.com/quarantined", Value: "hang", Effect: "NoSchedule"}, taint)
	require.Contains(t, log.String(), "GPU 0 (0000:04:00.0) has a taint: it has been quarantined since 2026-11-29 09:00:00 UTC")
	require.Equal(t, kubeletplugin.HealthStatusUnhealthy, d.health().Devices[0].Health)
	require.Contains(t, d.health().Devices[0].Message, "has been quarantined since")
	require.NoError(t, prepared(t, d, running).Err, "its pod runs on")

	unprepare(t, d, running)
	late := claimOfGPUs("2", device0)
	require.ErrorContains(t, prepared(t, d, late).Err, "has been quarantined since", "the scheduler chose it before the taint")
	for _, c := range []struct {
		t  resourceapi.DeviceToleration
		is bool
	}{
		{resourceapi.DeviceToleration{Operator: "Exists"}, true},
		{resourceapi.DeviceToleration{Key: quarantined, Value: "hang"}, true},
		{resourceapi.DeviceToleration{Key: quarantined, Value: "hot"}, false},
		{resourceapi.DeviceToleration{Key: unusable, Operator: "Exists"}, false},
	} {
		require.Equal(t, c.is, tolerates([]resourceapi.DeviceToleration{c.t}, d.seen.Devices[0]), c.t)
	}
	late.Status.Allocation.Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{{Key: quarantined, Operator: "Exists"}}
	require.NoError(t, prepared(t, d, late).Err, "a test of sick GPUs")

	d.evict = true
	require.Equal(t, resourceapi.DeviceTaintEffectNoExecute, d.devices()[0].Taints[0].Effect)
	require.NoError(t, quarantine.RecordFile.Write(r, quarantine.Record{At: since, Policy: quarantine.Auto}))
	d.turn(context.Background())
	require.Empty(t, d.devices()[0].Taints, "in service again")
}

// A claim can avoid a GPU that is back in service. Looks that find no other fault change no slice.
func TestRecentFaultsAreAnAttribute(t *testing.T) {
	r := hosttest.ManyGPUs(t, 2)
	d, _ := started(t, r)
	at := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	d.now = func() time.Time { return at }
	look := func(strikes ...time.Time) []resourceapi.Device {
		require.NoError(t, quarantine.RecordFile.Write(r, quarantine.Record{At: at, Policy: quarantine.Auto, GPUs: []quarantine.GPU{
			{Ref: quarantine.Ref{Name: gpu0}, State: quarantine.InService, Strikes: strikes}}}))
		d.turn(context.Background())
		return d.devices()
	}
	faults := func(one resourceapi.Device) *int64 { return one.Attributes["recentFaults"].IntValue }
	require.Nil(t, faults(d.devices()[0]), "no unit records them")
	well := look()
	require.Equal(t, new(int64(0)), faults(well[0]))
	require.Nil(t, faults(well[1]), "not in the record")
	first := at
	ill := look(first)
	require.Equal(t, new(int64(1)), faults(ill[0]))
	for range 100 {
		at = at.Add(time.Second)
		require.Equal(t, ill, look(first))
	}
	require.Equal(t, new(int64(2)), faults(look(first, at)[0]))
	at = at.Add(24 * time.Hour)
	require.Equal(t, well, look(first, at.Add(-24*time.Hour)), "a day later")
}

// What the device plugin gave its pods before stays theirs.
func TestGPUOfAnotherHolderIsATaint(t *testing.T) {
	d, _ := started(t, hosttest.ManyGPUs(t, 2))
	require.NoError(t, d.seen.Leases.HoldForPod("team/old/main", []int{1}, nil))
	d.turn(context.Background()) // the kubelet does not answer
	require.Contains(t, d.Trouble(), "so no lease of a pod ends")
	require.Empty(t, d.devices()[0].Taints)
	require.Equal(t, "pod", d.devices()[1].Taints[0].Value)
	require.Equal(t, leased, d.devices()[1].Taints[0].Key)
	require.ErrorContains(t, prepared(t, d, claimOfGPUs("1", device1)).Err, "is held by pod team/old, container main")
	require.NoError(t, d.seen.Leases.ReleasePod([]int{1}))
	d.turn(context.Background())
	require.Empty(t, d.devices()[1].Taints)
}

// One slice has at most 64 devices with taints.
func TestManyPartitionsAreSeveralSlices(t *testing.T) {
	d, _ := started(t, hosttest.ManyGPUs(t, 1))
	for n, want := range map[int][]int{0: nil, 64: {64}, 130: {64, 64, 2}} {
		var sizes []int
		for _, s := range d.resources(make([]resourceapi.Device, n)).Pools["node"].Slices {
			sizes = append(sizes, len(s.Devices))
		}
		require.Equal(t, want, sizes)
	}
}

// Each GPU has a device that runtimes find, with nodes that every user may open.
func TestGPUsAreDescribedForRuntimes(t *testing.T) {
	r := hosttest.ManyGPUs(t, 2)
	_, _ = started(t, r)
	text, err := r.ReadText(specFile)
	require.NoError(t, err)
	require.Contains(t, text, `"kind":"gpu.amd.com/gpu"`)
	require.Contains(t, text, `{"name":"`+gpu1+`","containerEdits":{"deviceNodes":[{"path":"/dev/dri/renderD129"`)
	require.Contains(t, text, `"fileMode":438`, "0666")
}

func TestCommandLine(t *testing.T) {
	world := t.TempDir() + "/kubeconfig"
	hosttest.Put(t, "/", world, "")
	for _, c := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{"--help"}, 0, "Usage: gpu-dra-driver [flags]"},
		{[]string{"--version"}, 0, "gpu-dra-driver 1\n"},
		{[]string{"--kubelet-dir=lib"}, 2, "want an absolute path"},
		{[]string{"--replicas=101"}, 2, "invalid value 101 for flag --replicas: want 1 to 100"},
		{[]string{"--nope"}, 2, "unknown flag: --nope; see gpu-dra-driver --help"},
		{[]string{"--kubeconfig=" + world}, 1, "other users can read it; run: chmod 600 " + world},
		{[]string{"--path.root=" + t.TempDir()}, 1, "cannot find the kubelet's credentials: none of /etc/kubernetes/kubelet.conf, "},
		{[]string{"--kubeconfig=/none"}, 1, "cannot read the credentials of the cluster"},
	} {
		var out bytes.Buffer
		require.Equal(t, c.code, Run(context.Background(), "1", c.args, &out, &out), c.args)
		require.Contains(t, out.String(), c.out)
	}
}

// A hook of the charm starts the service, which may be before the machine joins a cluster.
func TestServiceReportsWhatIsMissing(t *testing.T) {
	r := hosttest.ManyGPUs(t, 1)
	socket := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	defer systemd.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, options{root: r, kubelet: t.TempDir()}, io.Discard) }()
	reports := func(text string) {
		for state := ""; !strings.Contains(state, text); {
			data := make([]byte, 4096)
			n, err := systemd.Read(data)
			require.NoError(t, err)
			state = string(data[:n])
			require.Contains(t, state, "READY=1\nWATCHDOG=1\nERRNO=107\n")
		}
	}
	reports("STATUS=cannot find the kubelet's credentials: ")
	hosttest.Put(t, r, "/etc/kubernetes/kubelet.conf", `{"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
		"contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x"}`)
	reports("STATUS=cannot find the name of this node in the cluster: ")
	end()
	require.NoError(t, <-ended)
}
