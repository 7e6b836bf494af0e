package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// authority is a certificate that signs.
func authority(t *testing.T) string { t.Helper(); return hosttest.NewAuthority(t, "ca").PEM }

// D30, D40: the web and the charm's own connections use TLS as PostgreSQL publishes it. A new
// CA restarts the web.
func TestD30D40DatabaseTLS(t *testing.T) {
	ca := authority(t)
	for name, tt := range map[string]struct {
		tls, ca string
		mode    string
	}{
		"none":         {"False", "", "disable"},
		"TLS":          {"True", "", "require"},
		"TLS and a CA": {"True", ca, "verify-full"},
		"CA only":      {"", ca, "disable"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedWeb(t, nil)
			l := o.Facts.Web.Database
			l.Remote["secret-tls"] = "secret:d2tls00000000000000g"
			l.Secrets["secret:d2tls00000000000000g"] = map[string]string{"tls": tt.tls, "tls-ca": tt.ca}
			d := Desire(o, nil)
			require.Empty(t, d.Causes)
			env := webEnv(t, d)
			require.Equal(t, tt.mode, env["CONCOURSE_POSTGRES_SSLMODE"])
			require.Equal(t, tt.mode, d.Repair.SSLMode)
			written, ok := resourcetest.File(d.Resources, "/var/lib/concourse/keys/database-ca.pem")
			require.Equal(t, tt.mode == "verify-full", ok)
			if !ok {
				require.NotContains(t, env, "CONCOURSE_POSTGRES_CA_CERT")
				return
			}
			require.Equal(t, ca, written)
			require.Equal(t, ca, d.Repair.CA)
			require.Equal(t, "/var/lib/concourse/keys/database-ca.pem", env["CONCOURSE_POSTGRES_CA_CERT"])
			before := resourcetest.Trigger(t, d.Resources, RestartWeb).Inputs
			l.Secrets["secret:d2tls00000000000000g"]["tls-ca"] = authority(t)
			require.NotEqual(t, before, resourcetest.Trigger(t, Desire(o, nil).Resources, RestartWeb).Inputs)
		})
	}
}

// A request changes only with the key or the names. Without a name it is missing.
func TestCertificateRequestChangesOnlyWithItsNames(t *testing.T) {
	r := hosttest.Root(t)
	cfg := roletest.Config(t, map[string]any{"mode": "web", "tls-enabled": true})
	w := &model.Web{}
	c, err := observeCertify(r, cfg, w)
	require.NoError(t, err)
	require.Equal(t, Certify{}, c)
	w.Address = "10.0.0.2"
	first, err := observeCertify(r, cfg, w)
	require.NoError(t, err)
	hosttest.Put(t, r, concourse.HomeWebFiles().TLSKey(), first.Key)
	again, err := observeCertify(r, cfg, w)
	require.NoError(t, err)
	require.Equal(t, first, again)
	w.Address = "10.0.0.3"
	other, err := observeCertify(r, cfg, w)
	require.NoError(t, err)
	require.Equal(t, first.Key, other.Key)
	require.NotEqual(t, first.Request, other.Request)
	require.NotEqual(t, relation.CertificateDatabag(first.Request), relation.CertificateDatabag(other.Request))
	off := roletest.Config(t, map[string]any{"mode": "web"})
	c, err = observeCertify(r, off, w)
	require.NoError(t, err)
	require.Equal(t, Certify{}, c)
}

// A mirror's password is in a file of the web's own, and a new one restarts the web.
func TestRegistryMirrorIsWrittenForConcourse(t *testing.T) {
	o := observedWeb(t, map[string]any{"registry-mirror": "ci:hunter2@mirror:5000"})
	d := Desire(o, nil)
	const path = "/var/lib/concourse/keys/base-resource-type-defaults.yml"
	require.Equal(t, path, webEnv(t, d)[config.ResourceDefaults])
	written, ok := resourcetest.File(d.Resources, path)
	require.True(t, ok)
	require.Equal(t, "registry-image:\n    registry_mirror:\n        host: mirror:5000\n        username: ci\n        password: hunter2\n", written)
	other := observedWeb(t, map[string]any{"registry-mirror": "mirror:5000"})
	require.NotEqual(t, resourcetest.Trigger(t, d.Resources, RestartWeb).Inputs, resourcetest.Trigger(t, Desire(other, nil).Resources, RestartWeb).Inputs)
	require.NotContains(t, webEnv(t, Desire(observedWeb(t, nil), nil)), config.ResourceDefaults)
}
