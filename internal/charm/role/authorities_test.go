package role

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func authority(digit string) relation.Authority {
	fingerprint := ""
	for len(fingerprint) < 64 {
		fingerprint += digit
	}
	return relation.Authority{Fingerprint: fingerprint, PEM: "PEM " + digit + "\n"}
}

// trusting returns a machine with a simulated update-ca-certificates, and its calls.
func trusting(t *testing.T) (h host.Host, calls *[][]string) {
	t.Helper()
	calls = new([][]string)
	r := hosttest.NewRunner(t)
	h = hosttest.Quiet(t, hosttest.Root(t))
	r.On("update-ca-certificates", func(c host.Command) (string, error) {
		*calls = append(*calls, c.Argv)
		links, err := h.Glob(SystemCerts + "/*.pem")
		require.NoError(t, err)
		for _, l := range links {
			if slices.Contains(c.Argv, "--fresh") {
				require.NoError(t, h.Root.Remove(l))
			}
		}
		files, err := h.Glob(authoritiesDir + "/*.crt")
		require.NoError(t, err)
		require.NoError(t, h.MkdirAll(SystemCerts, 0o755))
		for _, f := range files {
			name := path.Base(f)
			link := h.Path(SystemCerts + "/" + name[:len(name)-len("crt")] + "pem")
			_ = os.Remove(link)
			require.NoError(t, os.Symlink(h.Path(f), link))
		}
		return "", nil
	})
	h.Runner = r
	return h, calls
}

// trust is one run of a hook, which ends after so many steps; -1 is all.
func trust(t *testing.T, h host.Host, steps int, all ...relation.Authority) (done plan.Plan) {
	t.Helper()
	there, err := ObserveTrust(h.Root, len(all) > 0)
	require.NoError(t, err)
	p, err := plan.Diff(context.Background(), h, DesireTrust(there, all)...)
	require.NoError(t, err)
	if steps >= 0 && steps < len(p) {
		p = p[:steps]
	}
	for _, s := range p {
		require.NoError(t, s.Do(context.Background()), s.Op)
	}
	return p
}

func links(t *testing.T, h host.Host) (names []string) {
	t.Helper()
	entries, err := h.ReadDir(SystemCerts)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestMachineTrustsOnlyTheAuthoritiesOfRelations(t *testing.T) {
	h, calls := trusting(t)
	require.Empty(t, trust(t, h, -1), "nobody ever gave any")
	a, b, c := authority("a"), authority("b"), authority("c")
	name := func(of relation.Authority) string { return authorityName + of.Fingerprint[:32] }
	for _, step := range []struct {
		all   []relation.Authority
		argv  []string
		links []string
	}{
		{[]relation.Authority{a}, []string{"update-ca-certificates"}, []string{name(a) + ".pem"}},
		{[]relation.Authority{a, b}, []string{"update-ca-certificates"}, []string{name(a) + ".pem", name(b) + ".pem"}},
		// A link that leads nowhere would stay.
		{[]relation.Authority{b}, []string{"update-ca-certificates", "--fresh"}, []string{name(b) + ".pem"}},
		{[]relation.Authority{c}, []string{"update-ca-certificates", "--fresh"}, []string{name(c) + ".pem"}},
		{nil, []string{"update-ca-certificates", "--fresh"}, nil},
	} {
		*calls = nil
		require.NotEmpty(t, trust(t, h, -1, step.all...))
		require.Equal(t, [][]string{step.argv}, *calls)
		require.Equal(t, step.links, links(t, h))
		require.Empty(t, trust(t, h, -1, step.all...), "once")
		require.Equal(t, len(step.all) > 0, h.Exists(authoritiesDir))
	}
}

// A run that is killed anywhere, before a reboot too, which forgets the stamps.
func TestTrustConvergesAfterAKilledRun(t *testing.T) {
	a, b := authority("a"), authority("b")
	for _, reboot := range []bool{false, true} {
		for _, to := range [][]relation.Authority{{b}, {a, b}, nil} {
			for k := 0; ; k++ {
				h, _ := trusting(t)
				trust(t, h, -1, a)
				all := len(trust(t, h, k, to...))
				if reboot {
					require.NoError(t, os.RemoveAll(h.Path("/run/concourse-ci-machine")))
				}
				trust(t, h, -1, to...)
				var want []string
				for _, one := range to {
					want = append(want, authorityName+one.Fingerprint[:32]+".pem")
				}
				require.Equal(t, want, links(t, h), "%v, %d steps", to, k)
				require.Empty(t, trust(t, h, -1, to...))
				if all < k {
					break
				}
			}
		}
	}
}

func TestFolderOfAuthoritiesHasNoOtherFiles(t *testing.T) {
	h, calls := trusting(t)
	a := authority("a")
	trust(t, h, -1, a)
	*calls = nil
	hosttest.Put(t, h.Root, authoritiesDir+"/other.crt", "mine")
	require.Len(t, trust(t, h, -1, a), 1)
	require.NoError(t, os.Symlink("/nowhere", h.Path(SystemCerts+"/gone.pem")))
	hosttest.Put(t, h.Root, path.Join(authoritiesDir, fileOf(a)), "changed")
	trust(t, h, -1, a)
	require.Equal(t, [][]string{{"update-ca-certificates", "--fresh"}}, *calls, "what leads nowhere stops Concourse's copy")
}

// madeAuthority returns the certificate of a new authority.
func madeAuthority(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: serial, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// An application with many certificates does not displace the certificates of another
// application.
func TestRelationsShareTheLimitOfAuthorities(t *testing.T) {
	list := func(from, n int) (all []relation.Authority) {
		for i := range n {
			all = append(all, relation.Authority{Fingerprint: fmt.Sprintf("%064x", from+i)})
		}
		return all
	}
	const limit = relation.MaxAuthorities
	for name, c := range map[string]struct {
		given [][]relation.Authority
		left  []int
		kept  []relation.Authority // trusted whatever the others give
		total int
	}{
		"few after many":       {[][]relation.Authority{list(0, 1500), list(9000, 2)}, []int{1500 - limit + 2, 0}, list(9000, 2), limit},
		"few before many":      {[][]relation.Authority{list(9000, 2), list(0, 1500)}, []int{0, 1500 - limit + 2}, list(9000, 2), limit},
		"two with many":        {[][]relation.Authority{list(0, 300), list(1000, 300)}, []int{200, 200}, append(list(0, 100), list(1000, 100)...), limit},
		"as many as there may": {[][]relation.Authority{list(0, limit)}, []int{0}, list(0, limit), limit},
		"the same of two":      {[][]relation.Authority{list(0, 150), list(0, 150)}, []int{0, 0}, list(0, 150), 150},
		"nothing":              {[][]relation.Authority{nil}, []int{0}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			all, left := shareAuthorities(c.given)
			require.Equal(t, c.left, left)
			require.Len(t, all, c.total)
			require.Subset(t, all, c.kept)
			require.True(t, slices.IsSortedFunc(all, func(a, b relation.Authority) int { return strings.Compare(a.Fingerprint, b.Fingerprint) }))
		})
	}
}

func TestStatusNamesTheRelationWithTooManyAuthorities(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	var many []string
	for range relation.MaxAuthorities + 3 {
		many = append(many, madeAuthority(t, key))
	}
	bag := func(certs ...string) map[string]string {
		text, err := json.Marshal(certs)
		require.NoError(t, err)
		return map[string]string{"certificates": string(text)}
	}
	all, causes := authorities(Observed{Facts: model.Facts{Unit: "web/1", Authorities: model.Authorities{Relations: []model.Relation{
		{App: "site", Remote: bag(madeAuthority(t, key))}, {App: "vault", Remote: bag(many...)},
	}}}})
	require.Len(t, all, relation.MaxAuthorities)
	require.Equal(t, []status.Cause{status.Warn("receive-ca-certs: 4 of 203 authorities of vault are not trusted").
		Explain("the limit is 200; have it give fewer, or remove the relation").
		Run("juju remove-relation web:receive-ca-certs vault")}, causes)
}

func TestAuthoritiesOfAllRelationsAreTrustedAndInvalidOnesNamed(t *testing.T) {
	o := Observed{Facts: model.Facts{Unit: "web/1", Authorities: model.Authorities{Relations: []model.Relation{
		{App: "ca"}, {App: "vault", Remote: map[string]string{"certificates": "["}},
	}}}}
	all, causes := authorities(o)
	require.Empty(t, all)
	require.Equal(t, []status.Cause{
		status.Warn("receive-ca-certs: ca has given no certificate yet").Run("juju status ca"),
		WrongData(status.Active, "web", "receive-ca-certs", "vault", "certificates: want a JSON list of certificates in PEM form"),
	}, causes)
	all, causes = authorities(Observed{})
	require.Empty(t, all)
	require.Empty(t, causes)
}
