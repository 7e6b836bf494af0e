package concourse

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

func workerLine(t testing.TB, s WebSecrets) string {
	t.Helper()
	line, err := s.HostPublicKey()
	require.NoError(t, err)
	return line
}

// D16: the same keys in any order give the same bytes, so that nothing is
// reloaded for nothing.
func TestAuthorizedKeysAreTheSameInAnyOrder_D16(t *testing.T) {
	other, err := newWebSecrets(testBits)
	require.NoError(t, err)
	a, b := workerLine(t, secrets(t)), workerLine(t, other)
	p := SeparateWebFiles()
	f := p.Authorized([]string{a, b}, nil)
	require.Equal(t, "/var/lib/concourse-web/keys/authorized_worker_keys", f.Path)
	require.Equal(t, os.FileMode(0o644), f.Mode)
	require.Equal(t, "concourse", f.Owner)
	require.Len(t, strings.Split(string(f.Data), "\n"), 3)
	require.Equal(t, f, p.Authorized([]string{b, a, b + "  gpu-0", " " + a + "\n"}, nil), "comments and copies make no difference")
}

// D19: a key that is not requested any more is removed; without any there is a file all the
// same, as the web starts with none missing.
func TestKeysOfRemovedWorkersAreRemoved_D19(t *testing.T) {
	a := workerLine(t, secrets(t))
	h := hosttest.Real(t)
	p := WebPaths{Dir: release.HomeDir}
	write := func(keys ...string) string {
		f := p.Authorized(keys, nil)
		f.Owner = "" // the user is not the subject here
		require.NoError(t, resourcetest.Apply(t, h, f))
		text, err := h.ReadFile(f.Path)
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, a+"\n", write(a))
	require.Empty(t, write())
}

// What comes from another machine can't bring a second line or options along.
func TestOnlyKeysAreAuthorized(t *testing.T) {
	a := workerLine(t, secrets(t))
	for _, bad := range []string{"", "garbage", "ssh-rsa", a + "\n" + a, `environment="A=b" ` + a, "# " + a, a[:len(a)/2]} {
		require.Empty(t, HomeWebFiles().Authorized([]string{bad}, nil).Data, "%q", bad)
	}
}

// What someone added is known by its key, whatever is written around it.
func TestKeysOfWorkersOutsideJujuAreFound(t *testing.T) {
	line := func(name string) string { _, public := hosttest.Key(name); return strings.TrimSpace(public) }
	a, b, c := line("a"), line("b"), line("c")
	existing := strings.Join([]string{"# by hand", a, b + " somebody@elsewhere", "garbage", `from="10.0.0.1" ` + c, b, " " + a + " again", ""}, "\n")
	others := OtherKeys([]byte(existing), []string{a + "\n"})
	require.Equal(t, []string{b + " somebody@elsewhere", `from="10.0.0.1" ` + c}, others)
	require.Empty(t, OtherKeys([]byte(existing), []string{a, b, c}))
	require.Empty(t, OtherKeys(nil, nil))
	f := HomeWebFiles().Authorized([]string{a}, nil, others...)
	require.Equal(t, 3, strings.Count(string(f.Data), "\n"))
	require.ElementsMatch(t, others, OtherKeys(f.Data, []string{a}), "the file that is written gives the same again")
}

func FuzzOtherKeys(f *testing.F) {
	_, public := hosttest.Key("a")
	f.Add([]byte(public), public)
	f.Add([]byte("# x\nfrom=\"a\" "+public+"\r\n"), "")
	f.Fuzz(func(t *testing.T, existing []byte, known string) {
		others := OtherKeys(existing, []string{known})
		again := OtherKeys(HomeWebFiles().Authorized(nil, nil, others...).Data, []string{known})
		if slices.Sort(others); !slices.Equal(others, again) {
			t.Fatalf("%q, then %q", others, again)
		}
	})
}
