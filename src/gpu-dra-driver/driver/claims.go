package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/fourdollars/concourse-ci-machine/internal/kube/deviceplugin"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// PrepareResourceClaims implements the API. It leases the GPUs of each claim before the runtime
// can have them.
func (d *driver) PrepareResourceClaims(_ context.Context,
	claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.look(); err != nil {
		return nil, err
	}
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, c := range claims {
		devices, err := d.prepare(c)
		results[c.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

// prepare leases the GPUs of one claim. Admin access needs no lease, because it is for programs
// that watch a GPU while others use it.
func (d *driver) prepare(c *resourceapi.ResourceClaim) (devices []kubeletplugin.Device, err error) {
	if err := checkConfig(c.Status.Allocation.Devices.Config); err != nil {
		return nil, err
	}
	var gpus, shared []int
	excluded := map[int]string{}
	for _, r := range c.Status.Allocation.Devices.Results {
		if r.Driver != Name {
			continue
		}
		i := slices.IndexFunc(d.seen.Devices, func(g deviceplugin.Device) bool { return nameOf(g) == r.Device })
		if i < 0 || r.Pool != d.node {
			return nil, fmt.Errorf("cannot give GPU %s to a claim: this node has no such GPU now", r.Device)
		}
		g := d.seen.Devices[i]
		devices = append(devices, kubeletplugin.Device{Requests: []string{r.Request}, PoolName: r.Pool,
			DeviceName: r.Device, ShareID: r.ShareID, CDIDeviceIDs: []string{specKind + "=" + g.Address()}})
		if r.AdminAccess != nil && *r.AdminAccess {
			continue
		}
		if r.ShareID != nil {
			shared = append(shared, i)
		} else {
			gpus = append(gpus, i)
		}
		if g.Exclusion != "" && !tolerates(r.Tolerations, g) {
			excluded[i] = g.Exclusion
		}
	}
	claim := claimOf(c.Namespace, c.Name, c.UID)
	err = d.seen.Leases.HoldForClaim(claim, gpus, excluded)
	for _, i := range shared {
		if err == nil { // or what it holds ends with its pod
			err = d.holdShare(claim, i, excluded)
		}
	}
	return devices, err
}

func claimOf(namespace, name string, uid types.UID) lease.Claim {
	return lease.Claim{Namespace: namespace, Name: name, UID: string(uid)}
}

// tolerates reports whether a claim may have a GPU that others do not get, such as a test of
// quarantined GPUs.
func tolerates(all []resourceapi.DeviceToleration, g deviceplugin.Device) bool {
	key := unusable
	if g.Cause != "" {
		key = quarantined
	}
	return slices.ContainsFunc(all, func(t resourceapi.DeviceToleration) bool {
		equal := t.Operator == resourceapi.DeviceTolerationOpEqual || t.Operator == ""
		return (t.Key == "" || t.Key == key) && (!equal || t.Value == g.Cause)
	})
}

// checkConfig refuses parameters for this driver other than those of AMD's driver, which have
// no fields.
func checkConfig(all []resourceapi.DeviceAllocationConfiguration) error {
	for _, c := range all {
		if c.Opaque == nil || c.Opaque.Driver != Name {
			continue
		}
		var of map[string]string
		err := json.Unmarshal(c.Opaque.Parameters.Raw, &of)
		if err == nil && (len(of) != 2 || of["apiVersion"] != "gpu.resource.amd.com/v1alpha1" || of["kind"] != "GpuConfig") {
			err = errors.New("only a GpuConfig of gpu.resource.amd.com/v1alpha1, which has no fields, is known")
		}
		if err != nil {
			return fmt.Errorf("cannot apply the parameters of the claim: %w", err)
		}
	}
	return nil
}

// UnprepareResourceClaims implements the API. It ends the leases of claims that no pod uses.
func (d *driver) UnprepareResourceClaims(_ context.Context,
	claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen.Leases.Dir == "" { // no look has found the leases yet
		if err := d.look(); err != nil {
			return nil, err
		}
	}
	results := map[types.UID]error{}
	s, err := d.readShares()
	if err != nil {
		return nil, err
	}
	for _, c := range claims {
		claim := claimOf(c.Namespace, c.Name, c.UID)
		results[c.UID] = errors.Join(d.seen.Leases.ReleaseClaim(claim), s.ReleaseClaim(claim))
	}
	return results, nil
}
