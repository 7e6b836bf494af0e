//go:build e2e

package web

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	credentials "github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/webclient"
)

var made = sync.OnceValues(concourse.NewWebSecrets)

func newSecrets(t *testing.T) concourse.WebSecrets {
	t.Helper()
	s, err := made()
	require.NoError(t, err)
	return s
}

// signer is the key of a worker, and its line.
func signer(t *testing.T) (ssh.Signer, string) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	key, err := ssh.NewSignerFromKey(private)
	require.NoError(t, err)
	return key, string(ssh.MarshalAuthorizedKey(key.PublicKey()))
}

// register opens the connection that a worker opens, checking the host's key.
func register(u *unit, worker ssh.Signer) (*ssh.Client, error) {
	line, err := u.secrets.HostPublicKey()
	require.NoError(u.t, err)
	hostKey, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	require.NoError(u.t, err)
	return ssh.Dial("tcp", "127.0.0.1:2222", &ssh.ClientConfig{User: "beacon", Auth: []ssh.AuthMethod{ssh.PublicKeys(worker)},
		HostKeyCallback: ssh.FixedHostKey(hostKey), Timeout: patience})
}

// The web runs with what the charm writes, as the user and with the rights
// that its unit gives it: ports below 1024, a root to read only, the database
// by TLS only.
func TestWebRunsAsItsUnitDoes(t *testing.T) {
	ctx := context.Background()
	pg := startPostgres(t)
	u := newUnit(t, 0, pg, newSecrets(t))
	require.NotEmpty(t, u.converge())
	require.Empty(t, u.converge(), "a second run plans nothing")
	for file, mode := range map[string]os.FileMode{u.config.Paths.KeyDir(): os.ModeDir | 0o700, u.config.Paths.TSAHostKey(): 0o600,
		u.config.Paths.SessionKey(): 0o600, u.config.Paths.TLSKey(): 0o600, u.config.Paths.Env(): 0o600} {
		st, err := u.host.Stat(file)
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode(), file)
		require.Equal(t, file == u.config.Paths.Env(), st.Sys().(*syscall.Stat_t).Uid == 0, file)
	}
	u.start(nil)

	answer, err := http.Get(u.url() + "/api/v1/info")
	require.NoError(t, err)
	defer answer.Body.Close()
	var info struct {
		ExternalURL string `json:"external_url"`
		ClusterName string `json:"cluster_name"`
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&info))
	require.Equal(t, "a test", info.ClusterName)
	require.Equal(t, "https://127.0.0.1:443", info.ExternalURL)
	workers, err := u.api().Workers(ctx)
	require.NoError(t, err)
	require.Empty(t, workers)
	ca, err := os.ReadFile(u.host.Path(u.config.Paths.TLSCert()))
	require.NoError(t, err)
	trust := &tls.Config{RootCAs: x509.NewCertPool()}
	require.True(t, trust.RootCAs.AppendCertsFromPEM(ca))
	eve := credentials.Credentials{URL: "https://127.0.0.1", Username: "eve", Password: `e"v$e\ `}
	_, err = (&concourse.API{Client: webclient.New(eve, trust, time.Now)}).Workers(ctx)
	if err != nil { // from 8.3 on a user of no team sees no workers
		require.EqualError(t, err, "cannot list the workers: the web at https://127.0.0.1 answers 403 Forbidden: forbidden", "by TLS, as another local user")
	}
	var wrong *concourse.LoginError
	_, err = concourse.NewAPI(u.url(), "admin", "wrong").Workers(ctx)
	require.ErrorAs(t, err, &wrong)

	resp, err := http.Get("http://127.0.0.1:9391/metrics")
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(body), "concourse_")
	require.NotContains(t, u.said(), u.secrets.AdminPassword)
	require.NotContains(t, u.said(), pg.db.Password)

	require.NoError(t, u.process.Process.Signal(syscall.SIGTERM))
	require.NoError(t, u.process.Wait(), "it ends well when it is stopped")
}

// D19: the web trusts exactly the workers of the file after a reload, without a restart;
// one that has left is cut off and does not come back.
func TestWebTrustsTheWorkersOfTheFile_D16_D19(t *testing.T) {
	u := newUnit(t, 0, startPostgres(t), newSecrets(t))
	u.converge()
	u.start(nil)
	worker, line := signer(t)
	stays, other := signer(t)
	_, err := register(u, worker)
	require.ErrorContains(t, err, "unable to authenticate")
	authorize := func(lines ...string) {
		u.files[len(u.files)-1] = u.config.Paths.Authorized(lines, nil)
		require.Len(t, u.converge(), 1)
		u.reload()
	}
	authorize(line, other)
	gone, err := register(u, worker)
	require.NoError(t, err)
	defer gone.Close()
	kept, err := register(u, stays)
	require.NoError(t, err)
	defer kept.Close()
	authorize(other)
	_, err = register(u, worker)
	require.ErrorContains(t, err, "unable to authenticate")
	_, _, err = gone.SendRequest("keepalive", true, nil)
	require.NoError(t, err, "a connection outlives its key")

	_, err = u.host.Run(context.Background(), concourse.CutOff("127.0.0.1"))
	require.NoError(t, err)
	require.Error(t, gone.Wait(), "until it is cut off")
	back, err := register(u, stays)
	require.NoError(t, err, "another worker is back at once")
	require.NoError(t, back.Close())
}

// A worker of one team is let in by the teams' file, which is read again like the other.
func TestWebTrustsTheWorkersOfATeam(t *testing.T) {
	u := newUnit(t, 0, startPostgres(t), newSecrets(t))
	u.config.TeamKeys = true
	mac, line := signer(t)
	windows, other := signer(t)
	trust := func(teams map[string][]string) {
		f, err := u.config.Paths.Teams(teams)
		require.NoError(t, err)
		u.files = append(u.files[:4:4], f)
		u.converge()
	}
	trust(map[string][]string{"ios": {line}})
	u.start(nil)
	in, err := register(u, mac)
	require.NoError(t, err)
	require.NoError(t, in.Close())
	_, err = register(u, windows)
	require.ErrorContains(t, err, "unable to authenticate")
	trust(map[string][]string{"ml": {other}})
	u.reload()
	in, err = register(u, windows)
	require.NoError(t, err)
	require.NoError(t, in.Close())
	_, err = register(u, mac)
	require.ErrorContains(t, err, "unable to authenticate")
}

// The list of workers is reported and pruned by the API.
func TestWorkersArePrunedByTheAPI_D18(t *testing.T) {
	ctx := context.Background()
	pg := startPostgres(t)
	u := newUnit(t, 0, pg, newSecrets(t))
	u.converge()
	u.start(nil)
	add := func(name, addr string) {
		pg.in("insert into workers (name, state, version, platform, tags, resource_types, addr, baggageclaim_url, expires, start_time, ephemeral) values ('" +
			name + "', 'running', '2.5', 'linux', '[\"gpu\"]', '[]', '" + addr + "', 'http://127.0.0.1:1', now() + interval '1 hour', now(), false)")
	}
	add("a", "127.0.0.1:1")
	add("odd name/1", "127.0.0.1:2")
	api := u.api()
	workers, err := api.Workers(ctx)
	require.NoError(t, err)
	require.Len(t, workers, 2)
	require.Equal(t, []string{"gpu"}, workers[0].Tags)
	require.ErrorContains(t, api.Prune(ctx, "a"), "400 Bad Request: cannot prune running worker")
	require.NoError(t, api.Land(ctx, concourse.WorkerInfo{Name: "a"}))
	require.Equal(t, "a landing, odd name/1 running", pg.in("select string_agg(name || ' ' || state, ', ' order by name) from workers"))
	require.NoError(t, api.Prune(ctx, "a"))
	require.NoError(t, api.Land(ctx, concourse.WorkerInfo{Name: "odd name/1"}))
	require.NoError(t, api.Prune(ctx, "odd name/1"))
	require.NoError(t, api.Prune(ctx, "odd name/1"), "one that has gone is pruned")
	// The web's list follows its database with a delay.
	require.Eventually(t, func() bool {
		workers, err = api.Workers(ctx)
		return err == nil && len(workers) == 0
	}, patience, tick)
	require.Equal(t, "0", pg.in("select count(*) from workers"))
}

// D3: webs with the same secrets are one to workers and users: a token of one
// is good at the other, and both TSAs have one key.
func TestWebsOfAnApplicationAreOne_D3(t *testing.T) {
	ctx := context.Background()
	pg, secrets := startPostgres(t), newSecrets(t)
	first, second := newUnit(t, 0, pg, secrets), newUnit(t, 1, pg, secrets)
	first.converge()
	second.converge()
	first.start(nil)
	token := login(t, first)
	second.start(map[string]string{"CONCOURSE_TSA_BIND_PORT": "2223", "CONCOURSE_DEBUG_BIND_PORT": "8078",
		"CONCOURSE_TSA_DEBUG_BIND_PORT": "2220"}) // on one machine
	for _, u := range []*unit{first, second} {
		status, _ := u.request(token, http.MethodGet, "/api/v1/workers", "")
		require.Equal(t, http.StatusOK, status)
	}
	require.NoError(t, first.process.Process.Signal(syscall.SIGTERM))
	require.NoError(t, first.process.Wait())
	_, err := second.api().Workers(ctx)
	require.NoError(t, err, "and one is enough")
}
