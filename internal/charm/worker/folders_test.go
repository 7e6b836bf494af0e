package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// authority returns a relation with one authority.
func authority(t *testing.T, pem string) []model.Relation {
	t.Helper()
	return []model.Relation{{ID: "receive-ca-certs:9", App: "ca", Units: map[string]map[string]string{"ca/0": {"ca": pem}}}}
}

func TestPrivateAuthoritiesReachChecksAndTasks(t *testing.T) {
	set := map[string]any{"compute-runtime": "none", "srv-folders": "none"}
	o := running(observed(t, hosttest.Host(t, "no-gpu"), set))
	plain := Desire(o, nil)
	require.NotContains(t, env(t, plain), "CONCOURSE_CERTS_DIR")
	require.True(t, absent(plain, oci.DefaultConfig), "no task gets anything")

	first, second := hosttest.NewAuthority(t, "first").PEM, hosttest.NewAuthority(t, "second").PEM
	o.Facts.Authorities.Relations = authority(t, first)
	d := Desire(o, nil)
	folder := env(t, d)["CONCOURSE_CERTS_DIR"]
	require.Regexp(t, `^/opt/concourse-ci-machine/certs/[0-9a-f]{16}$`, folder)
	text, ok := resourcetest.File(d.Resources, oci.DefaultConfig)
	require.True(t, ok)
	config, err := roletest.DecodeWrapper(text)
	require.NoError(t, err)
	require.Equal(t, oci.Config{Runtime: concourse.RealRunc, Containers: oci.Tasks, CACertificates: role.SystemBundle,
		Volumes: concourse.WorkFolder(false)}, config)
	require.Equal(t, env(t, d), env(t, Desire(o, nil)))

	// Other authorities have another folder, because Concourse copies each folder once.
	o.Facts.Authorities.Relations = authority(t, second)
	o.CertsFolders = []string{folder[len(concourse.CertsFolders)+1:]}
	d = Desire(o, nil)
	require.NotEqual(t, folder, env(t, d)["CONCOURSE_CERTS_DIR"])
	require.True(t, absent(d, folder))
	o.Facts.Authorities.Relations = nil
	d = Desire(o, nil)
	require.Equal(t, env(t, plain), env(t, d))
	require.True(t, absent(d, concourse.CertsFolders))
}
