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

// claimPrefix begins the name of a holder that is a claim. No namespace has a space, so no pod
// has such a name.
const claimPrefix = "claim "

func isClaim(holder string) bool { return strings.HasPrefix(holder, claimPrefix) }

func (c Claim) holder() string { return claimPrefix + c.Namespace + "/" + c.Name + "/" + c.UID }

// String returns the name of the claim in texts: "claim team-a/train".
func (c Claim) String() string { return claimPrefix + c.Namespace + "/" + c.Name }

// HoldForClaim leases all of the GPUs to a claim, or none, as a lease of kind Pod. It may be
// repeated, also after a kill. It returns a *Refusal if another claim or any other holder has
// one of the GPUs, or if a GPU is excluded and this claim does not hold it.
func (l Leases) HoldForClaim(c Claim, gpus []int, excluded []Excluded) error {
	return l.holdForPod(c.holder(), gpus, excluded, func(holder string) bool { return holder == c.holder() })
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
	return l.releasePod(l.all(), func(holder string) bool { return holder == c.holder() })
}

// Claim returns the claim that holds the GPU or held it last, and whether the holder is a claim.
func (s State) Claim() (c Claim, is bool) {
	if s.Kind != Pod || !isClaim(s.Container) {
		return c, false
	}
	namespace, rest, _ := strings.Cut(strings.TrimPrefix(s.Container, claimPrefix), "/")
	name, uid, _ := strings.Cut(rest, "/")
	return Claim{namespace, name, uid}, true
}
