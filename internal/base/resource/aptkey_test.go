package resource

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func machine(t testing.TB) (host.Host, *hosttest.Runner) {
	r := hosttest.NewRunner(t)
	return host.Host{Root: hosttest.Root(t), Runner: r, Clock: hosttest.Clock{T: hosttest.Now}}, r
}

func diff(t testing.TB, h host.Host, r plan.Resource) plan.Plan {
	t.Helper()
	p, err := r.Diff(context.Background(), h)
	require.NoError(t, err)
	return p
}

func apply(t testing.TB, h host.Host, r plan.Resource) plan.Plan {
	t.Helper()
	p := diff(t, h, r)
	_, err := p.Apply(context.Background(), nil)
	require.NoError(t, err)
	return p
}

const keyPath = "/etc/apt/keyrings/test.gpg"

func keyServer(t *testing.T, answer http.HandlerFunc) AptKey {
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return AptKey{Path: keyPath, URL: s.URL + "/rocm.gpg.key", Fingerprint: tinyFingerprint}
}

func serve(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Write(data) }
}

func TestAptKeyIsFetchedOnceAndWrittenAsBinary(t *testing.T) {
	h, _ := machine(t)
	var asked atomic.Int32
	k := keyServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Write(armored("PGP PUBLIC KEY BLOCK", tinyKey()))
	})
	k.Fingerprint = strings.ToLower(k.Fingerprint)
	p := diff(t, h, k)
	require.Equal(t, "fetch apt key "+keyPath, p[0].Op)
	require.Equal(t, "missing", p[0].Why)
	require.Zero(t, asked.Load(), "planning uses no network")
	apply(t, h, k)
	have, err := h.ReadFile(keyPath)
	require.NoError(t, err)
	require.Equal(t, tinyKey(), have)
	st, err := h.Stat(keyPath)
	require.NoError(t, err)
	require.Equal(t, "-rw-r--r--", st.Mode().String())
	require.Empty(t, diff(t, h, k))
}

// D38: keys used to be fetched and trusted without looking at the fingerprint.
func TestAptKeyWithAnotherFingerprintIsNotWritten(t *testing.T) {
	h, _ := machine(t)
	other := oldPacket(6, tinyBody[:50]+"!")
	k := keyServer(t, serve(other))
	_, err := diff(t, h, k).Apply(context.Background(), nil)
	var wrong *keyError
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, "want "+tinyFingerprint)
	require.False(t, h.Exists(keyPath))
	require.Equal(t, wrong.Error(), wrong.Remedy(wellknown.Commands{}).String(), "whose repository it is knows who asks for the key")
	k.Remedy = "set mirror"
	_, err = diff(t, h, k).Apply(context.Background(), nil)
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, wrong.Error()+"; set mirror", wrong.Remedy(wellknown.Commands{}).String())
}

func TestExistingAptKeyIsVerified(t *testing.T) {
	for name, c := range map[string]struct{ have, why string }{
		"another key":    {string(oldPacket(6, tinyBody[:50]+"!")), "its fingerprint is"},
		"a key too many": {string(append(tinyKey(), oldPacket(6, tinyBody[:50]+"!")...)), "more than one key"},
		"rubbish":        {"rubbish", "not an OpenPGP key"},
		"armored":        {string(armored("PGP PUBLIC KEY BLOCK", tinyKey())), "armored"},
	} {
		h, _ := machine(t)
		hosttest.Put(t, h.Root, keyPath, c.have)
		k := keyServer(t, serve(tinyKey()))
		p := apply(t, h, k)
		require.Len(t, p, 1, name)
		require.Equal(t, "replace apt key "+keyPath, p[0].Op, name)
		require.Contains(t, p[0].Why, c.why, name)
		require.Empty(t, diff(t, h, k), name)
	}
}

func TestAptKeyServerThatMisbehaves(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"not found": {http.NotFound, "answered 404 Not Found"},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, "larger than 1048576 bytes"},
		"captive portal": {serve([]byte("<html>log in</html>")), "it is not an OpenPGP key"},
	} {
		h, _ := machine(t)
		k := keyServer(t, c.answer)
		k.Tolerate = true
		notes, err := diff(t, h, k).Apply(context.Background(), nil)
		require.NoError(t, err, name)
		require.Len(t, notes, 1, name)
		require.ErrorContains(t, notes[0].Err, c.want, name)
		require.False(t, h.Exists(keyPath), name)
	}
}

func TestAptKeyDownloadStopsWithTheHook(t *testing.T) {
	h, _ := machine(t)
	ctx, cancel := context.WithCancel(context.Background())
	k := keyServer(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	err := diff(t, h, k)[0].Do(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestAptKeyComesThroughTheProxy(t *testing.T) {
	h, _ := machine(t)
	var auth, target atomic.Value
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth.Store(r.Header.Get("Proxy-Authorization"))
		target.Store(r.URL.String())
		w.Write(tinyKey())
	}))
	t.Cleanup(proxy.Close)
	k := AptKey{Path: keyPath, URL: "http://repo.example/rocm.gpg.key", Fingerprint: tinyFingerprint,
		Proxies: Proxies{HTTP: strings.Replace(proxy.URL, "http://", "http://user:secret@", 1)}}
	apply(t, h, k)
	require.Equal(t, "http://repo.example/rocm.gpg.key", target.Load())
	require.NotEmpty(t, auth.Load())

	proxy.Close()
	require.NoError(t, h.Remove(keyPath))
	err := diff(t, h, k)[0].Do(context.Background())
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}
