package role

import (
	"context"
	"os"
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/plan"
	"concourse-ci-machine/internal/relation"
	"concourse-ci-machine/internal/status"
)

func authority(digit string) relation.Authority {
	fingerprint := ""
	for len(fingerprint) < 64 {
		fingerprint += digit
	}
	return relation.Authority{Fingerprint: fingerprint, PEM: "PEM " + digit + "\n"}
}

// trusting is a machine with a stand-in of update-ca-certificates, and what it was called
// with.
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

func TestTheMachineTrustsTheAuthoritiesAndNoOthers(t *testing.T) {
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
func TestTrustConvergesWhereverARunEnded(t *testing.T) {
	a, b := authority("a"), authority("b")
	for _, reboot := range []bool{false, true} {
		for _, to := range [][]relation.Authority{{b}, {a, b}, nil} {
			for k := 0; ; k++ {
				h, _ := trusting(t)
				trust(t, h, -1, a)
				all := len(trust(t, h, k, to...))
				if reboot {
					require.NoError(t, os.RemoveAll(h.Path("/run/concourse-charm")))
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

func TestWhatIsInTheFolderOfAuthoritiesIsTheCharms(t *testing.T) {
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

func TestAuthoritiesOfAllRelationsCountAndTheStatusTellsOfWrongOnes(t *testing.T) {
	o := Observed{Facts: model.Facts{Unit: "web/1", Authorities: model.Authorities{Relations: []model.Relation{
		{App: "ca"}, {App: "vault", Remote: map[string]string{"certificates": "["}},
	}}}}
	all, causes := authorities(o)
	require.Empty(t, all)
	require.Equal(t, []status.Cause{
		{Kind: status.Active, Text: "receive-ca-certs: ca has given no certificate yet; see juju status ca"},
		{Kind: status.Active, Text: "receive-ca-certs: certificates: want a JSON list of certificates in PEM form; have vault mend it, or run juju remove-relation web:receive-ca-certs vault"},
	}, causes)
	all, causes = authorities(Observed{})
	require.Empty(t, all)
	require.Empty(t, causes)
}
