package jobexporter

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/webclient"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
)

func logins(b *bed) int {
	_, n := b.web.Seen()
	return n
}

// One login at the start was all there was: a day later each request was
// refused, the metrics stood still and pipelines_total was 0.
func TestD58TokenIsRenewedBeforeItEnds(t *testing.T) {
	b := newBed(t)
	b.web.Set((*atctest.Server).Site)
	require.NoError(t, b.poll(t))
	require.NoError(t, b.poll(t))
	require.Equal(t, 1, logins(b), "a good token is used again")
	b.now = b.now.Add(24*time.Hour - 5*time.Minute - time.Second)
	require.NoError(t, b.poll(t))
	require.Equal(t, 1, logins(b))
	b.now = b.now.Add(time.Second)
	require.NoError(t, b.poll(t))
	require.Equal(t, 2, logins(b))
	require.Equal(t, []string{"concourse_pipelines_total 4"}, series(b.scrape(t), "concourse_pipelines_total"))
}

func TestD58TokenThatConcourseForgotIsReplaced(t *testing.T) {
	b := newBed(t)
	b.web.Set((*atctest.Server).Site)
	require.NoError(t, b.poll(t))
	b.web.Set((*atctest.Server).Revoke)
	require.NoError(t, b.poll(t))
	require.Equal(t, 2, logins(b))
	require.Equal(t, []string{"concourse_pipelines_total 4"}, series(b.scrape(t), "concourse_pipelines_total"))
}

func TestShortTokenIsRenewedInItsLastTenth(t *testing.T) {
	b := newBed(t)
	b.web.Set(func(s *atctest.Server) { s.Life = 100 * time.Second })
	require.NoError(t, b.poll(t))
	b.now = b.now.Add(89 * time.Second)
	require.NoError(t, b.poll(t))
	require.Equal(t, 1, logins(b))
	b.now = b.now.Add(time.Second)
	require.NoError(t, b.poll(t))
	require.Equal(t, 2, logins(b))
}

func TestA401ForANewTokenIsNotRetried(t *testing.T) {
	b := newBed(t)
	b.web.Set(func(s *atctest.Server) {
		s.Handle[atctest.Teams] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	})
	require.ErrorContains(t, b.poll(t), "cannot get /api/v1/teams: the web at "+b.web.URL+" answers 401 Unauthorized")
	require.Equal(t, 2, logins(b))
}

// Each try costs the web a slow hash, and may lock the account of a directory.
func TestRefusedLoginIsNotRetriedAtEachPoll(t *testing.T) {
	b := newBed(t)
	b.web.Set(func(s *atctest.Server) { s.Users["admin"] = "another" })
	for range 5 {
		require.EqualError(t, b.poll(t), "cannot get /api/v1/teams: the web at "+b.web.URL+" rejects the password of user admin")
	}
	require.Equal(t, 1, logins(b))
	require.Equal(t, []string{`concourse_exporter_polls_total{result="login"} 5`}, series(b.scrape(t), `concourse_exporter_polls_total{result="login"}`)[:1])
	b.now = b.now.Add(webclient.RefusedPause)
	require.Error(t, b.poll(t))
	require.Equal(t, 2, logins(b))
	b.Reload()
	require.Error(t, b.poll(t))
	require.Equal(t, 3, logins(b), "SIGHUP tries at once")
	b.web.Set(func(s *atctest.Server) { s.Users["admin"] = "s3 cr&t" })
	b.now = b.now.Add(webclient.RefusedPause)
	require.NoError(t, b.poll(t))
}

// Another port or admin name broke it: both were in the code.
func TestD57URLAndUserAreFromTheFile(t *testing.T) {
	b := newBed(t)
	other := atctest.New(t)
	other.Set(func(s *atctest.Server) { s.Users = map[string]string{"someone": `p:a,s"s\`} })
	require.NoError(t, b.poll(t))
	b.credentials(t, login.Credentials{URL: other.URL, Username: "someone", Password: `p:a,s"s\`})
	require.NoError(t, b.poll(t), "the file is read again by itself")
	asked, n := other.Seen()
	require.Equal(t, 1, n)
	require.Equal(t, []string{"POST " + atctest.Token, "GET " + atctest.Teams, "GET " + atctest.Pipelines, "GET " + atctest.Jobs, "GET " + atctest.ContainersOfMain}, asked)
}

func TestRotatedPasswordIsUsedAtOnce(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.poll(t))
	b.web.Set(func(s *atctest.Server) { s.Users["admin"] = "new"; s.Revoke() })
	require.Error(t, b.poll(t))
	b.credentials(t, login.Credentials{URL: b.web.URL, Username: "admin", Password: "new"})
	require.NoError(t, b.poll(t), "that the old one was refused does not hold up the new one")
}

func TestLoginThatMayPassByItselfIsTriedAgain(t *testing.T) {
	b := newBed(t)
	b.web.Set(func(s *atctest.Server) {
		s.Handle[atctest.Token] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	})
	require.ErrorContains(t, b.poll(t), "502 Bad Gateway")
	b.web.Set(func(s *atctest.Server) { delete(s.Handle, atctest.Token) })
	require.NoError(t, b.poll(t))
}

func TestPasswordIsNotSentToARedirectTarget(t *testing.T) {
	b, elsewhere := newBed(t), atctest.New(t)
	b.web.Set(func(s *atctest.Server) {
		s.Handle[atctest.Token] = func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/x", http.StatusTemporaryRedirect)
		}
	})
	require.ErrorContains(t, b.poll(t), "307 Temporary Redirect to "+elsewhere.URL+"; use that URL")
	asked, _ := elsewhere.Seen()
	require.Empty(t, asked)
}

func TestPasswordIsInNoLogAndNoAnswer(t *testing.T) {
	b := newBed(t)
	const secret = "s3 cr&t"
	echo := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusInternalServerError)
		w.Write(body)
	}
	b.web.Set(func(s *atctest.Server) { s.Handle[atctest.Token] = echo })
	err := b.poll(t)
	require.Error(t, err)
	b.web.Set(func(s *atctest.Server) { s.Users["admin"] = "x"; delete(s.Handle, atctest.Token) })
	text := err.Error() + b.poll(t).Error()
	b.web.Close()
	b.Reload()
	text += b.poll(t).Error() + b.logs.String() + b.scrape(t) + b.Ready().Error()
	for _, s := range []string{secret, "s3+cr%26t", "s3%20cr%26t"} {
		require.NotContains(t, text, s)
	}
	require.NotContains(t, b.Ready().Error(), "admin", "anybody may read that")
}
