//go:build e2e

package concourse

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// certificateOf is a part of a certificate that no other has.
func certificateOf(a hosttest.Authority) string { return strings.Split(a.PEM, "\n")[4] }

// trusts has each unit informed of an authority, and of another in its place: Concourse
// copies what checks and gets trust once for each name of the folder, and that one changes.
func (s *story) trusts(t *testing.T) {
	gives := func(a hosttest.Authority) {
		list, err := json.Marshal([]string{a.PEM})
		require.NoError(t, err)
		for _, u := range s.app.units {
			relationOf(u, "receive-ca-certs").AppData = map[string]string{"certificates": string(list), "version": "1"}
			s.app.relation(u, "receive-ca-certs", "changed", "")
		}
		for _, u := range s.app.units[1:] {
			s.ready(u)
		}
	}
	for _, u := range s.app.units {
		u.Model.Relate(21, "receive-ca-certs", "ca")
	}
	first, second := hosttest.NewAuthority(t, "First"), hosttest.NewAuthority(t, "Second")
	for _, c := range []struct {
		name        string
		given, gone hosttest.Authority
	}{{"first", first, second}, {"second", second, first}} {
		gives(c.given)
		count := func(a hosttest.Authority) string { return "$(grep -c '" + certificateOf(a) + "' $SSL_CERT_FILE)" }
		out, err := s.execute("echo named: $SSL_CERT_FILE $GIT_SSL_CAINFO; echo has " + count(c.given) + ", not " + count(c.gone))
		require.NoError(t, err, out)
		require.Contains(t, out, "named: /opt/concourse-ci-machine/ca-certificates.crt /opt/concourse-ci-machine/ca-certificates.crt")
		require.Contains(t, out, "has 1, not 0")

		// A pipeline and its own version: containers of one that no longer exists are still
		// found by its name, and the worker keeps what it got.
		pipeline := "trust-" + c.name
		s.fly.must("set-pipeline", "-n", "-p", pipeline, "-c", s.fly.write("trust.yml", strings.Replace(held, "initial_version: held", "initial_version: "+c.name, 1)))
		s.fly.must("unpause-pipeline", "-p", pipeline)
		s.fly.must("check-resource", "-r", pipeline+"/image")
		s.fly.must("trigger-job", "-j", pipeline+"/build")
		into := func(args ...string) (string, error) {
			return s.fly.run(append(append([]string{"intercept"}, args...), "--", "sh", "-c", "cat /etc/ssl/certs/ca-certificates.crt")...)
		}
		until(t, func() bool {
			_, err := s.fly.run("intercept", "-j", pipeline+"/build", "-s", "t", "--", "true")
			return err == nil
		}, "the task does not start")
		for _, step := range [][]string{{"-c", pipeline + "/image"}, {"-j", pipeline + "/build", "-s", "image", "--step-type", "get"}} {
			out, err := into(step...)
			require.NoError(t, err, "%v: %s", step, out)
			require.Contains(t, out, certificateOf(c.given), step)
			require.NotContains(t, out, certificateOf(c.gone), step)
		}
		s.fly.must("destroy-pipeline", "-n", "-p", pipeline)
	}
	for _, u := range s.app.units {
		s.app.relation(u, "receive-ca-certs", "broken", "")
		u.Model.Relations = slices.DeleteFunc(u.Model.Relations, func(r *jujutest.Relation) bool { return r.Endpoint == "receive-ca-certs" })
		s.ready(u)
	}
	out, err := s.execute("echo named: $SSL_CERT_FILE.")
	require.NoError(t, err, out)
	require.Contains(t, out, "named: .")
}
