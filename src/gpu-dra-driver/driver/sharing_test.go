package driver

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// startedSharing returns a driver that shares these GPUs between three claims each.
func startedSharing(t *testing.T, r host.Root, gpus string) *driver {
	t.Helper()
	hosttest.Put(t, r, "/run/concourse-ci-machine/.keep", "")
	hosttest.Put(t, r, "/proc/sys/kernel/random/boot_id", "boot-1\n")
	d := newDriver(options{root: r, config: oci.DefaultConfig, node: "node", replicas: 3, sharedGPUs: gpus}, new(bytes.Buffer))
	d.turn(context.Background())
	return d
}

// sharing returns an allocated claim of a share.
func sharing(uid types.UID, gpus ...string) *resourceapi.ResourceClaim {
	c := claimOfGPUs(uid, gpus...)
	for i := range c.Status.Allocation.Devices.Results {
		id := "share-" + uid
		c.Status.Allocation.Devices.Results[i].ShareID = &id
	}
	return c
}

func TestSharedGPUIsOfferedToSeveralClaims(t *testing.T) {
	d := startedSharing(t, hosttest.Host(t, "mi210x4"), "0")
	require.Empty(t, d.Trouble())
	for i, one := range d.devices() {
		if i > 0 {
			require.Nil(t, one.AllowMultipleAllocations)
			require.NotContains(t, one.Attributes, resourceapi.QualifiedName("shared"))
			continue
		}
		require.True(t, *one.AllowMultipleAllocations)
		require.True(t, *one.Attributes["shared"].BoolValue)
		shares := one.Capacity["shares"]
		require.Equal(t, []string{"3", "1"}, []string{shares.Value.String(), shares.RequestPolicy.Default.String()})
		require.True(t, one.Capacity["memory"].RequestPolicy.Default.IsZero(), "the first claim does not consume it all")
	}
	for _, one := range startedSharing(t, hosttest.Host(t, "mi300x-cpx"), "all").devices() {
		require.LessOrEqual(t, len(one.Attributes)+len(one.Capacity), 32, "the API's limit")
	}
	d = startedSharing(t, hosttest.Host(t, "mi210x4"), "0,9")
	require.Contains(t, d.Trouble(), "cannot share a GPU of --shared-gpus")
	require.Len(t, d.shared, 1)
}

// One GPU has claims that share it, or one claim alone. The lease ends with the last of them,
// also if the driver was killed between two.
func TestClaimsShareAGPU(t *testing.T) {
	r := hosttest.ManyGPUs(t, 2)
	d := startedSharing(t, r, "0")
	holder := func() lease.State {
		d.turn(context.Background())
		return d.seen.States[0]
	}
	for _, uid := range []types.UID{"1", "2", "1"} {
		got := prepared(t, d, sharing(uid, device0))
		require.NoError(t, got.Err)
		require.Equal(t, "share-"+uid, *got.Devices[0].ShareID)
	}
	require.Equal(t, lease.SharingClaims, holder().Container)
	require.Len(t, d.claimsOf(0), 2)
	require.Empty(t, d.devices()[0].Taints, "it has free shares")
	require.ErrorContains(t, prepared(t, d, claimOfGPUs("3", device0)).Err, "is held by claims that share it")
	require.ErrorContains(t, d.seen.Leases.HoldForPod("a/b/c", []int{0}, nil), "is held by claims that share it")
	require.NoError(t, prepared(t, d, claimOfGPUs("3", device1)).Err)
	require.ErrorContains(t, prepared(t, d, sharing("4", device1)).Err, "is held by claim team/train")

	d = startedSharing(t, r, "1") // another driver, with other options
	require.Equal(t, "claim", d.devices()[0].Taints[0].Value, "shared before")
	require.Equal(t, "claim", d.devices()[1].Taints[0].Value, "one claim has it alone")
	require.Equal(t, "has a taint: claims that share it has it", d.stateOf(0))
	d = startedSharing(t, r, "0")
	unprepare(t, d, sharing("1", device0))
	require.True(t, holder().Held)
	require.Len(t, d.claimsOf(0), 1)
	unprepare(t, d, sharing("2", device0))
	require.False(t, holder().Held)
	require.NoError(t, d.seen.Leases.HoldForSharingClaims(0, nil), "killed before the claim's own lease")
	require.False(t, holder().Held)
	require.NoError(t, prepared(t, d, claimOfGPUs("5", device0)).Err)
}

func TestQuarantinedGPUGetsNoMoreClaims(t *testing.T) {
	r := hosttest.ManyGPUs(t, 1)
	d := startedSharing(t, r, "all")
	running := sharing("1", device0)
	require.NoError(t, prepared(t, d, running).Err)
	since := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	quarantineGPU(t, r, since)
	d.reported[evidence{claimOf("team", "train", "1"), gpu0, since}] = true // no cluster here
	d.turn(context.Background())
	require.Equal(t, quarantined, d.devices()[0].Taints[0].Key)
	require.NoError(t, prepared(t, d, running).Err, "its pod runs on")
	require.ErrorContains(t, prepared(t, d, sharing("2", device0)).Err, "has been quarantined since")
	unprepare(t, d, running)
	d.turn(context.Background())
	require.ErrorContains(t, prepared(t, d, sharing("2", device0)).Err, "has been quarantined since")
}
