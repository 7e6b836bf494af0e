package lease

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Claim identifies a ResourceClaim of Kubernetes.
type Claim struct{ Namespace, Name, UID string }

func (c Claim) holder() string { return c.Namespace + "/" + c.Name + "/" + c.UID }

// String returns the name of the claim in texts: "claim team-a/train".
func (c Claim) String() string { return "claim " + c.Namespace + "/" + c.Name }

// SharingClaims is the holder's name of a GPU that several claims may have at the same time. The
// caller keeps which they are, and releases the GPU after the last.
const SharingClaims = "claims that share it"

// claimedBy returns the function that reports whether a claim's holder has the GPU.
func claimedBy(holder string) func(slot) bool {
	return func(s slot) bool {
		return s.live && s.record != nil && s.record.kind == Claimed && s.record.container == holder
	}
}

// HoldForClaim leases all of the GPUs to a claim, or none. It may be repeated, also after a kill.
// It returns a *Refusal if another claim or any other holder has one of the GPUs, or if a GPU is
// excluded and this claim does not hold it.
func (l Leases) HoldForClaim(c Claim, gpus []int, excluded map[int]string) error {
	return l.hold(Claimed, c.holder(), gpus, excluded, claimedBy(c.holder()))
}

// HoldForSharingClaims leases a GPU to all claims that share it. It returns a *Refusal if a claim
// has the GPU alone or another holder has it, or if the GPU is excluded and free.
func (l Leases) HoldForSharingClaims(gpu int, excluded map[int]string) error {
	return l.hold(Claimed, SharingClaims, []int{gpu}, excluded, claimedBy(SharingClaims))
}

// ReleaseSharingClaims frees those of the GPUs that claims shared.
func (l Leases) ReleaseSharingClaims(gpus []int) error {
	return l.releaseHeld(gpus, claimedBy(SharingClaims))
}

// ReleaseClaim frees all GPUs of a claim, also those that the unit no longer has. A claim
// without GPUs is not an error.
func (l Leases) ReleaseClaim(c Claim) error {
	entries, err := os.ReadDir(l.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l.GPUs = slices.Clone(l.GPUs) // these first, because all calls lock files in one order
	for _, e := range entries {
		if name := e.Name(); isPlain(name) && name != countersName && name != keyName && !slices.Contains(l.GPUs, name) {
			l.GPUs = append(l.GPUs, name)
		}
	}
	return l.releaseHeld(l.all(), claimedBy(c.holder()))
}

// Claim returns the claim that holds the GPU or held it last, and whether the holder is one claim.
func (s State) Claim() (c Claim, is bool) {
	namespace, rest, named := strings.Cut(s.Container, "/")
	if s.Kind != Claimed || !named { // SharingClaims
		return c, false
	}
	name, uid, _ := strings.Cut(rest, "/")
	return Claim{namespace, name, uid}, true
}
