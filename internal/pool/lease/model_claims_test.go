package lease

import (
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
)

// claim is one that a pod uses, as the kubelet sees it.
type claim struct {
	Claim
	gpus []int
}

// stepClaims is what the kubelet and the driver of claims do. The scheduler knows no leases, so
// a new claim may name GPUs of others. After a refusal or a kill the kubelet prepares it again,
// or ends it.
func (m *model) stepClaims() {
	if len(m.claims) == 0 || m.r.IntN(3) == 0 {
		m.made++
		gpus := m.r.Perm(len(m.owner))[:1+m.r.IntN(min(2, len(m.owner)))]
		m.claims = append(m.claims, claim{Claim{"n", "c" + strconv.Itoa(m.made), "uid"}, gpus})
	}
	at := m.r.IntN(len(m.claims))
	if c := m.claims[at]; m.r.IntN(2) == 0 {
		m.prepare(c)
	} else if m.unprepare(c) {
		m.claims = slices.Delete(m.claims, at, at+1)
	}
}

// claimed reports whether a holder's name is a claim's.
func (m *model) claimed(name string) bool { return strings.HasSuffix(name, "/uid") }

func (m *model) prepare(c claim) {
	held := m.check()
	may := true
	for _, g := range c.gpus {
		may = may && (!held[g] || m.kept[g] == c.holder())
	}
	o := m.mayDie(func(l Leases) outcome { return outcome{err: l.HoldForClaim(c.Claim, c.gpus, nil)} })
	m.settle(o, c.gpus, c.holder())
	switch {
	case o.killed:
	case may:
		require.NoError(m.t, o.err, "step %d", m.n)
		m.note("claim held")
	default:
		var r *Refusal
		require.ErrorAs(m.t, o.err, &r, "step %d", m.n)
		m.note("claim refused")
	}
}

// unprepare reports whether the lease of the claim has ended.
func (m *model) unprepare(c claim) bool {
	var its []int
	for g, name := range m.kept {
		if name == c.holder() {
			its = append(its, g)
		}
	}
	o := m.mayDie(func(l Leases) outcome { return outcome{err: l.ReleaseClaim(c.Claim)} })
	m.settle(o, its, "")
	if o.killed {
		return false
	}
	require.NoError(m.t, o.err, "step %d", m.n)
	require.NotContains(m.t, m.kept, c.holder(), "step %d", m.n)
	m.note("claim released")
	return true
}
