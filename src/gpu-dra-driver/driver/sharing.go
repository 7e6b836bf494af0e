package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// allowShares lets n claims have a device at the same time, each with one of its shares. Other
// capacities are consumed on request only, because their default is the whole.
func allowShares(one *resourceapi.Device, n int) {
	yes, none, share := true, resource.MustParse("0"), resource.MustParse("1")
	one.AllowMultipleAllocations = &yes
	one.Attributes["shared"] = resourceapi.DeviceAttribute{BoolValue: &yes}
	for name, c := range one.Capacity {
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: &none}
		one.Capacity[name] = c
	}
	one.Capacity["shares"] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(int64(n), resource.DecimalSI),
		RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &share,
			ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &share}}}
}

// shares holds the leases of claims that share GPUs. Each GPU has as many as ever were held at
// the same time, and a free one. While one is held, lease.SharingClaims hold the GPU.
type shares struct {
	lease.Leases
	states []lease.State
}

// shareMark separates the GPU from the number in the name of a share.
const shareMark = "::"

// readShares reads which claims share GPUs. The caller holds mu.
func (d *driver) readShares() (s shares, err error) {
	s.Leases = d.seen.Leases
	s.Dir, s.GPUs = s.Dir+"-claims", nil
	var labels []string
	for _, g := range d.seen.Devices {
		for n, exists := 0, true; exists; n++ {
			name := fmt.Sprint(g.Address(), shareMark, n)
			s.GPUs, labels = append(s.GPUs, name), append(labels, g.Label())
			_, err := os.Lstat(filepath.Join(s.Dir, name))
			exists = err == nil
		}
	}
	s.Label = func(i int) string { return labels[i] }
	s.states, _, err = s.Read()
	return s, err
}

// claims returns the claims that share a GPU.
func (s shares) claims(gpu string) (all []lease.Claim) {
	for _, one := range s.states {
		if c, is := one.Claim(); is && one.Held && strings.HasPrefix(one.GPU, gpu+shareMark) {
			all = append(all, c)
		}
	}
	return all
}

// holdShare leases a share of a GPU to a claim, which may have it already. The caller holds mu.
func (d *driver) holdShare(c lease.Claim, gpu int, excluded map[int]string) error {
	s, err := d.readShares()
	if err != nil {
		return err
	}
	address := d.seen.Devices[gpu].Address()
	its := slices.Contains(s.claims(address), c)
	at := slices.IndexFunc(s.states, func(one lease.State) bool {
		holder, _ := one.Claim()
		return strings.HasPrefix(one.GPU, address+shareMark) && one.Held == its && (!its || holder == c)
	})
	if err := d.seen.Leases.HoldForSharingClaims(gpu, excluded); err != nil {
		return err
	}
	return s.HoldForClaim(c, []int{at}, map[int]string{at: excluded[gpu]})
}

// lookAtShares updates which claims share GPUs, and releases the GPUs that none shares any more.
// The caller holds mu.
func (d *driver) lookAtShares() error {
	d.sharers = make([][]lease.Claim, len(d.seen.Devices))
	if !slices.ContainsFunc(d.seen.States, sharedByClaims) {
		return nil
	}
	s, err := d.readShares()
	if err != nil {
		return fmt.Errorf("cannot read which claims share GPUs: %w", err)
	}
	var ended []int
	for i, g := range d.seen.Devices {
		d.sharers[i] = s.claims(g.Address())
		if sharedByClaims(d.seen.States[i]) && len(d.sharers[i]) == 0 {
			ended = append(ended, i)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	if err := d.seen.Leases.ReleaseSharingClaims(ended); err != nil {
		return err
	}
	return d.look()
}

// sharedByClaims reports whether claims share the GPU.
func sharedByClaims(s lease.State) bool {
	return s.Held && s.Kind == lease.Claimed && s.Container == lease.SharingClaims
}

// claimsOf returns the claims that have the GPU. The caller holds mu.
func (d *driver) claimsOf(i int) []lease.Claim {
	if c, is := d.seen.States[i].Claim(); is && d.seen.States[i].Held {
		return []lease.Claim{c}
	}
	return d.sharers[i]
}
