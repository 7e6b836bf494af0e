//go:build e2e

package page

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// proxyName resolves to this machine in a browser.
const proxyName = "ci.localhost"

// proxyConfig has the rules that HAProxy's charm makes of databags (haproxy-operator
// 165497fb, haproxy_route.cfg.j2), sorted by the depth of their paths: without TLS, and on a
// socket of the test.
var proxyConfig = template.Must(template.New("").Parse(`
global
    maxconn 4096
    stats socket {{.Control}}
defaults
    mode http
    retries 3
    timeout queue 20s
    timeout client 50s
frontend haproxy
    bind fd@3
{{- range .Routes}}
{{- if .Paths}}
    acl acl_path_{{.Service}} path_beg -i {{range .Paths}}{{.}} {{end}}
{{- end}}
    acl acl_host_{{.Service}} req.hdr(host),field(1,:) -i {{.Hostname}}
    use_backend {{.Service}} if {{if .Paths}}acl_path_{{.Service}} {{end}}acl_host_{{.Service}}
{{- end}}
    default_backend default
{{- range .Routes}}
backend {{.Service}}
    option forwardfor
    balance leastconn
    timeout server {{.Timeout.Server}}s
    timeout connect 60s
    timeout queue 60s
    option httpchk GET {{.Check.Path}}
    http-check send hdr Host {{.Hostname}}
    server {{.Service}}_0 {{index .Hosts 0}}:{{index .Ports 0}} check inter {{.Check.Interval}}s rise {{.Check.Rise}} fall {{.Check.Fall}}
{{- end}}
backend default
    http-request return status 200 content-type "text/plain" string "Default page"
`))

// proxied holds a databag of haproxy-route as HAProxy's charm reads it.
type proxied struct {
	Service  string   `json:"service"`
	Ports    []int    `json:"ports"`
	Hosts    []string `json:"hosts"`
	Paths    []string `json:"paths"`
	Hostname string   `json:"hostname"`
	Check    struct {
		Path                 string
		Interval, Rise, Fall int
	} `json:"check"`
	Timeout struct{ Server int } `json:"timeout"`
}

// requested returns the charm's request for a server at an address.
func requested(t *testing.T, r relation.Route, address string) (p proxied) {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	r.Hostname, r.Hosts = proxyName, []string{u.Hostname()}
	r.Port, err = strconv.Atoi(u.Port())
	require.NoError(t, err)
	bag, err := r.Databag()
	require.NoError(t, err)
	values := map[string]json.RawMessage{}
	for key, value := range bag {
		if value != "" {
			values[key] = json.RawMessage(value)
		}
	}
	text, err := json.Marshal(values)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &p))
	return p
}

// haproxy holds the addresses of a real HAProxy.
type haproxy struct{ url, control string }

func startProxy(t *testing.T, routes ...proxied) haproxy {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin") // which a user's PATH may lack
	need(t, "haproxy")
	p := haproxy{control: filepath.Join(t.TempDir(), "control")}
	config, err := os.Create(p.control + ".cfg")
	require.NoError(t, err)
	require.NoError(t, proxyConfig.Execute(config, map[string]any{"Routes": routes, "Control": p.control}))
	require.NoError(t, config.Close())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.url = fmt.Sprintf("http://%s:%d", proxyName, l.Addr().(*net.TCPAddr).Port)
	socket, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	require.NoError(t, l.Close())
	ctx, cancel := context.WithTimeout(context.Background(), stuck)
	cmd := exec.CommandContext(ctx, "haproxy", "-db", "-f", config.Name())
	cmd.ExtraFiles, cmd.Stderr = []*os.File{socket}, os.Stderr // 3
	require.NoError(t, cmd.Start())
	require.NoError(t, socket.Close())
	t.Cleanup(func() {
		cancel()
		require.Error(t, cmd.Wait(), "it was there until it was killed")
	})
	return p
}

// checks returns the results of the health checks by service.
func (p haproxy) checks() map[string]string {
	c, err := net.Dial("unix", p.control)
	if err != nil {
		return nil
	}
	defer c.Close()
	fmt.Fprintln(c, "show stat")
	text, _ := io.ReadAll(c)
	rows := map[string]string{}
	var head []string
	for line := range strings.Lines(string(text)) {
		row := strings.Split(strings.TrimPrefix(line, "# "), ",")
		if head == nil {
			head = row
		}
		for i, column := range head {
			if column == "check_status" && i < len(row) && strings.HasSuffix(row[1], "_0") {
				rows[row[0]] = row[i]
			}
		}
	}
	return rows
}

// get sends a request to the proxy's name.
func (p haproxy) get(path string) (code int, text string, err error) {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, strings.Replace(address, proxyName, "127.0.0.1", 1))
	}
	client := http.Client{Timeout: stuck, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	r, err := client.Get(p.url + path)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	return r.StatusCode, string(data), err
}

// One proxy leads to the web and, at the same name, to the page of all GPUs.
func TestProxyServesTheFleetAtItsPath(t *testing.T) {
	b := newBrowser(t)
	worker := serve(t, hosttest.Host(t, "amd"))
	page := serveFleet(t, fleetfile.File{Workers: []fleetfile.Worker{{Unit: "gpu/0", Name: "gpu-0-0badcafe", URL: strings.TrimSuffix(worker, "/"), Count: 1}}})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "the web at "+r.URL.Path) }))
	t.Cleanup(web.Close)
	p := startProxy(t, requested(t, relation.Route{Service: "ci-web_fleet", Path: wellknown.FleetPath}, page),
		requested(t, relation.Route{Service: "ci-web"}, web.URL))

	const users = 144 // with a connection each: the exporter serves 256 of a client at once
	paths := map[string]string{"/fleet": "GPU fleet of", "/fleet/": "GPU fleet of", "/fleet/api/v1/fleet": `"workers":[`, "/fleet/assets/page.js": "use strict",
		"/fleet/flakes": "All GPUs", "/api/v1/info": "the web at /api/v1/info", "/teams/main/pipelines/fleet": "the web at /teams/main/pipelines/fleet"}
	var wg sync.WaitGroup
	failed := make(chan string, users*len(paths))
	for range users {
		wg.Go(func() {
			for path, want := range paths {
				if code, text, err := p.get(path); err != nil || code != http.StatusOK || !strings.Contains(text, want) {
					failed <- fmt.Sprintf("%s: %d %v", path, code, err)
				}
			}
		})
	}
	wg.Wait()
	close(failed)
	for text := range failed {
		t.Error(text)
	}

	b.visit(p.url+"/fleet", view{width: 1440, height: 900})
	b.eval(`new Promise((done) => {
		const look = () => fetch("api/v1/fleet").then((a) => a.json()).then((r) => r.workers.some((w) => w.answered) ? done() : setTimeout(look, 200));
		look();
	})`, nil)
	b.open(p.url+"/fleet", view{width: 1440, height: 900})
	require.Contains(t, b.text(), "gpu/0")
	var at string
	b.eval("location.pathname", &at)
	require.Equal(t, "/fleet/", at)
	var canvases int
	b.eval(`document.querySelectorAll("figure canvas").length`, &canvases)
	require.Equal(t, 2, canvases, "the scripts and the style are there")
	var tile, flakes string
	b.eval(`document.querySelector("a.tile").href`, &tile)
	b.eval(`document.querySelector("a[href=flakes]").href`, &flakes)
	require.Equal(t, p.url+"/fleet/flakes", flakes)
	b.visit(flakes, view{width: 1440, height: 900})
	require.Contains(t, b.text(), "All GPUs")
	b.visit(tile, view{width: 1440, height: 900})
	require.Contains(t, b.text(), "AMD Radeon RX 7900 XT", "the status page of the worker")
	require.Empty(t, b.remarks)

	require.Eventually(t, func() bool {
		c := p.checks()
		return c["ci-web_fleet"] == "L7OK" && c["ci-web"] == "L7OK"
	}, stuck, 100*time.Millisecond, "the health checks succeed")
}
