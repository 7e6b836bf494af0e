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

// holds reports whether the claim holds the GPU.
func (c Claim) holds(s slot) bool {
	return s.live && s.record != nil && s.record.kind == Claimed && s.record.container == c.holder()
}

// HoldForClaim leases all of the GPUs to a claim, or none. It may be repeated, also after a kill.
// It returns a *Refusal if another claim or any other holder has one of the GPUs, or if a GPU is
// excluded and this claim does not hold it.
func (l Leases) HoldForClaim(c Claim, gpus []int, excluded []Excluded) error {
	return l.hold(Claimed, c.holder(), gpus, excluded, c.holds)
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
	return l.releaseHeld(l.all(), c.holds)
}

// Claim returns the claim that holds the GPU or held it last, and whether the holder is a claim.
func (s State) Claim() (c Claim, is bool) {
	if s.Kind != Claimed {
		return c, false
	}
	namespace, rest, _ := strings.Cut(s.Container, "/")
	name, uid, _ := strings.Cut(rest, "/")
	return Claim{namespace, name, uid}, true
}
