package concourse

import (
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

func hostKey(t testing.TB) string {
	key, err := rsa.GenerateKey(rand.Reader, testBits)
	require.NoError(t, err)
	public, err := ssh.NewPublicKey(&key.PublicKey)
	require.NoError(t, err)
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
}

func TestParseTSA(t *testing.T) {
	key := hostKey(t)
	for name, tc := range map[string]struct {
		bag  map[string]string
		want TSA
		bad  []string // parts of the problems
	}{
		"complete":        {map[string]string{"tsa-host": "10.0.0.2:2222", "tsa-public-key": key + " root@web\n", "concourse-version": "8.2.5", "fleet-page": "http://10.0.0.2:9358/"}, TSA{[]string{"10.0.0.2:2222"}, []string{key}, "8.2.5", "http://10.0.0.2:9358/"}, nil},
		"IPv6":            {map[string]string{"tsa-host": "[fd00::2]:2222", "tsa-public-key": key}, TSA{Hosts: []string{"[fd00::2]:2222"}, HostKeys: []string{key}}, nil},
		"host name":       {map[string]string{"tsa-host": "web.example:2222"}, TSA{Hosts: []string{"web.example:2222"}}, nil},
		"nothing yet":     {nil, TSA{}, nil},
		"only Juju's own": {map[string]string{"ingress-address": "10.0.0.2"}, TSA{}, nil},
		"no port":         {map[string]string{"tsa-host": "10.0.0.2"}, TSA{}, []string{"tsa-host: \"10.0.0.2\" is not host:port"}},
		"bare IPv6":       {map[string]string{"tsa-host": "fd00::2"}, TSA{}, []string{"is not host:port"}},
		"bad port":        {map[string]string{"tsa-host": "10.0.0.2:0"}, TSA{}, []string{"no port between"}},
		"bad host":        {map[string]string{"tsa-host": "a b\n:22"}, TSA{}, []string{"names no host"}},
		"two keys":        {map[string]string{"tsa-public-key": key + "\n" + key}, TSA{}, []string{"want one OpenSSH line"}},
		"key options":     {map[string]string{"tsa-public-key": "cert-authority " + key}, TSA{}, []string{"is not an OpenSSH public key"}},
		"no key":          {map[string]string{"tsa-public-key": "ssh-rsa"}, TSA{}, []string{"is not an OpenSSH public key"}},
		"a script":        {map[string]string{"fleet-page": "javascript:alert(1)/"}, TSA{}, []string{"fleet-page: \"javascript:alert(1)/\" is not a URL such as"}},
		"a template":      {map[string]string{"fleet-page": "http://h/{{.Labels}}/"}, TSA{}, []string{"is not a URL such as"}},
		"a password":      {map[string]string{"fleet-page": "http://a:b@h/"}, TSA{}, []string{"is not a URL such as"}},
		"all wrong":       {map[string]string{"tsa-host": "x", "tsa-public-key": "y", "concourse-version": "latest"}, TSA{}, []string{"tsa-host: ", "tsa-public-key: ", "concourse-version: \"latest\" is not a version"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := ParseTSA(tc.bag)
			require.Equal(t, tc.want, got)
			require.Len(t, problems, len(tc.bad))
			for i, part := range tc.bad {
				require.Contains(t, problems[i], part)
			}
		})
	}
}

// What others wrote is reported by its beginning: a status is for people.
func TestProblemsWithABagAreShort(t *testing.T) {
	for _, text := range []string{strings.Repeat("9", 10<<20), "v" + strings.Repeat("1.", 5<<20), "8" + strings.Repeat("\n", 10<<20) + ".2.5", "latest" + strings.Repeat("ü", 5<<20)} {
		bag := map[string]string{"tsa-host": text, "tsa-public-key": text, "concourse-version": text}
		got, problems := ParseTSA(bag)
		require.Equal(t, TSA{}, got)
		require.NotEmpty(t, problems)
		require.Less(t, len(strings.Join(problems, "; ")), 1000)
	}
}

// D4: without a complete databag the TSA is missing, with no address of our own in its
// place.
func TestWorkerRegistersAtAnyCompleteWeb_D4(t *testing.T) {
	key, other := hostKey(t), hostKey(t)
	bag := func(host, key, version string) map[string]string {
		return map[string]string{"tsa-host": host, "tsa-public-key": key, "concourse-version": version}
	}
	got, problems := FindTSA(map[string]map[string]string{
		"web/10": bag("10.0.0.10:2222", key, "8.3.0"), "web/2": bag("10.0.0.2:2222", key, "8.2.5"),
		"web/1": {"tsa-host": "nonsense"}, "web/3": bag("10.0.0.3:2222", other, ""), "web/4": {"tsa-host": "10.0.0.4:2222"},
	})
	require.Equal(t, TSA{Hosts: []string{"10.0.0.2:2222", "10.0.0.3:2222", "10.0.0.10:2222"},
		HostKeys: []string{key, other}, Version: "8.2.5"}, got)
	require.Equal(t, []string{`web/1 tsa-host: "nonsense" is not host:port`}, problems)
	got, problems = FindTSA(map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2:2222"}})
	require.False(t, got.Complete())
	require.Empty(t, problems)
}

func TestHostKeyFileIsWhatTheWorkerReads(t *testing.T) {
	h, tsa := hosttest.Real(t), TSA{Hosts: []string{"h:1"}, HostKeys: []string{hostKey(t)}}
	require.NoError(t, resourcetest.Apply(t, h, tsa.HostKeyFile()))
	text, err := h.ReadText(TSAHostKey)
	require.NoError(t, err)
	require.Equal(t, tsa.HostKeys[0], text)
}

func FuzzParseTSA(f *testing.F) {
	f.Add("10.0.0.2:2222", "ssh-rsa AAAA", "8.2.5", "http://10.0.0.2:9358/")
	f.Add("[fd00::2]:2222", "cert-authority ssh-rsa AAAA", "latest", "javascript:1")
	f.Fuzz(func(t *testing.T, host, key, version, page string) {
		got, _ := ParseTSA(map[string]string{"tsa-host": host, "tsa-public-key": key, "concourse-version": version, "fleet-page": page})
		for _, s := range append(append(got.Hosts, got.HostKeys...), got.Version, got.FleetPage) {
			if strings.ContainsAny(s, "\r\n\x00\"'\\") {
				t.Fatalf("%q", s)
			}
		}
	})
}

func TestWorkerNameChangesWithTheWorkFolder(t *testing.T) {
	h := hosttest.Real(t)
	_, ok := ReadWorkerID(h.Root, WorkDir)
	require.False(t, ok)
	require.NoError(t, resourcetest.Apply(t, h, WorkerID(WorkDir, "0badcafe")))
	id, ok := ReadWorkerID(h.Root, WorkDir)
	require.True(t, ok)
	require.Equal(t, "gpu-worker-3-0badcafe", WorkerName("gpu-worker/3", id))
	require.Empty(t, resourcetest.Ops(t, h, WorkerID(WorkDir, id)))
	for _, broken := range []string{"", "0BADCAFE", "0badcafe1", "../../etc"} {
		hosttest.Put(t, h.Root, workerIDFile(WorkDir), broken)
		_, ok = ReadWorkerID(h.Root, WorkDir)
		require.False(t, ok, broken)
	}
}
