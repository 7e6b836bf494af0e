//go:build e2e

package page

import (
	"bufio"
	"bytes"
	"context"
	"html"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/tests/suite"
)

// stuck is when a test gives up on a program; no test waits for it otherwise.
const stuck = 2 * time.Minute

// need skips where there is no browser, but not under `make e2e`.
func need(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		if os.Getenv("E2E") == "1" && !strings.Contains(","+os.Getenv("E2E_WITHOUT")+",", ",chromium,") {
			require.NoError(t, err)
		}
		t.Skip("chromium is not installed (Debian: chromium)")
	}
}

// serve runs the exporter on a fixture host and returns its address.
func serve(t *testing.T, r host.Root) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, suite.Build(dir, "./src/rocm-exporter"))
	ctx, cancel := context.WithTimeout(context.Background(), stuck)
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "rocm-exporter"), "--web.listen-address=127.0.0.1:0", "--path.root="+string(r))
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		require.Error(t, cmd.Wait(), "it was there until it was killed")
	})
	line, err := bufio.NewReader(errs).ReadString('\n')
	require.NoError(t, err, line)
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "rocm-exporter: listening on ")
	require.True(t, ok, line)
	return address
}

// browse shows a page in a browser of its own and returns what that printed.
func browse(t *testing.T, url string, more ...string) string {
	t.Helper()
	profile, err := os.MkdirTemp("", "page-test-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(profile)) }()
	ctx, cancel := context.WithTimeout(context.Background(), stuck)
	defer cancel()
	args := []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir=" + profile, "--virtual-time-budget=5000", "--enable-logging=stderr"}
	cmd := exec.CommandContext(ctx, "chromium", append(append(args, more...), url)...)
	cmd.Env = append(os.Environ(), "HOME="+profile, "XDG_CONFIG_HOME="+profile, "XDG_CACHE_HOME="+profile)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), errs.String())
	for line := range strings.Lines(errs.String()) {
		require.NotContains(t, line, ":CONSOLE", "the page has an error, or its own policy forbids a part of it")
	}
	return out.String()
}

func TestBrowserShowsTheGPU(t *testing.T) {
	need(t)
	url := "http://" + serve(t, hosttest.Host(t, "amd")) + "/"
	t.Run("live", func(t *testing.T) {
		dom, _, _ := strings.Cut(html.UnescapeString(browse(t, url, "--dump-dom")), "<template")
		require.Contains(t, dom, `<article class="healthy">`, "what the script makes")
		require.NotContains(t, dom, "<table", "it is in the place of the table")
		require.Contains(t, dom, "<h2>GPU 0: AMD Radeon RX 7900 XT</h2>")
		require.Contains(t, dom, "✓ healthy, 100 of 100")
		require.Contains(t, dom, "nothing wrong with temperature")
		require.Contains(t, dom, "72 °C of 108 °C (mem)")
		require.Contains(t, dom, "137 W of 315 W")
		require.Contains(t, dom, "5.8 GiB of 20.0 GiB")
		require.Contains(t, dom, "Live: read at ")
	})
	for name, size := range map[string]string{"screen": "1200,800", "phone": "500,900"} {
		t.Run("picture of a "+name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "page.png")
			browse(t, url, "--hide-scrollbars", "--window-size="+size, "--screenshot="+file)
			f, err := os.Open(file)
			require.NoError(t, err)
			defer f.Close()
			picture, err := png.Decode(f)
			require.NoError(t, err)
			colours := map[any]bool{}
			for y := range picture.Bounds().Dy() {
				for x := range picture.Bounds().Dx() {
					colours[picture.At(x, y)] = true
				}
			}
			require.Greater(t, len(colours), 10, "it is not empty")
		})
	}
}

// What a GPU is called can come from a card's own memory.
func TestBrowserRunsNothingFromAName(t *testing.T) {
	need(t)
	r := hosttest.Host(t, "mi210x4")
	names, err := filepath.Glob(r.Path("/sys/bus/pci/devices") + "/*/product_name")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, n := range names {
		require.NoError(t, os.WriteFile(n, []byte("<i id=injected>x</i>\n"), 0o644))
	}
	dom, _, _ := strings.Cut(browse(t, "http://"+serve(t, r)+"/", "--dump-dom"), "<template")
	require.NotContains(t, dom, "<i id")
	require.Contains(t, dom, "&lt;i id=injected&gt;x&lt;/i&gt;")
}
