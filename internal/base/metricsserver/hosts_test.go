package metricsserver

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

const (
	etcHosts = "127.0.0.1 localhost\n127.0.1.1 Gpu-3.ci.example.com gpu-3 # own\n10.0.0.9 other.example.com other\n"
	resolv   = "nameserver 127.0.0.53\nsearch lab.example.org. maas\n"
)

// A site in a browser gives its own name the address of this machine.
func TestOnlyNamesOfTheMachineAreServed(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f := Declare(fs, 0)
	require.NoError(t, fs.Parse([]string{"--web.hosts=metrics.example.com, Alias.example.net"}))
	s := &Server{flags: f, URLs: func() []string { return []string{"https://ci.example.com/fleet/", "", "http://10.0.0.1:9401/", ":"} }}
	f.hosts = append(f.hosts, machineNames("GPU-3", etcHosts, resolv)...)
	mux := NewMux("test")
	mux.HandleFunc("GET /", func(http.ResponseWriter, *http.Request) {})
	h := s.guarded(mux)
	for name, want := range map[string]int{
		"10.0.0.10:9401": 200, "[fd00::1]:9401": 200, "[fe80::1%25eth0]:9401": 200, "127.0.0.1": 200, "localhost:9401": 200, "": 200,
		"gpu-3:9401": 200, "GPU-3.ci.example.com.:9401": 200, "gpu-3.lab.example.org": 200, "gpu-3.maas:9401": 200,
		"rocm-exporter:9401": 200, "rocm-exporter.monitoring.svc:9401": 200, "x.svc.cluster.local": 200, "juju-1.lxd": 200,
		"ci.example.com": 200, "metrics.example.com:9401": 200, "alias.example.net": 200,
		"evil.example:9401": 421, "other.example.com": 421, "gpu-3.evil.example": 421, "xci.example.com": 421,
		"10.0.0.10.evil.example": 421, "local.evil.example": 421, "evil.example:80:80": 421,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = name
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, name)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		if want == http.StatusMisdirectedRequest {
			require.Contains(t, w.Body.String(), "; use the address of the machine. ")
		}
		r.URL.Path = "/fleet" + healthPath
		w = httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, 200, w.Code, "a probe")
		r.URL.Path, r.TLS = "/", &tls.ConnectionState{}
		w = httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, 200, w.Code, "the certificate decides")
	}
}

func FuzzHosts(f *testing.F) {
	f.Add("gpu-3.evil.example:80", etcHosts, resolv)
	f.Add("[::1%eth0", "#\n\n", "search\nsearch .\n")
	f.Fuzz(func(t *testing.T, name, hosts, resolv string) {
		for _, own := range machineNames("gpu-3", hosts, resolv) {
			beside := slices.ContainsFunc(strings.Split(strings.ToLower(hosts), "\n"), func(line string) bool {
				return strings.Contains(line, "gpu-3") && strings.Contains(line, own)
			})
			require.True(t, own == "gpu-3" || strings.HasPrefix(own, "gpu-3.") || beside, own)
		}
		got := hostName(name)
		if isPrivate(got) && strings.Contains(got, ".") && !strings.Contains(got, ":") {
			_, err := netip.ParseAddr(got)
			last := got[strings.LastIndexByte(got, '.'):]
			require.True(t, err == nil || last != ".com" && last != ".example")
		}
	})
}
