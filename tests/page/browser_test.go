//go:build e2e

package page

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stuck is when a test gives up on a program; no test waits for it otherwise.
const stuck = 30 * time.Minute

// need skips without a program, which its package is named for, but not under `make e2e`.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("E2E") == "1" && !strings.Contains(","+os.Getenv("E2E_WITHOUT")+",", ","+program+",") {
			require.NoError(t, err)
		}
		t.Skipf("%s is not installed (Debian: %[1]s)", program)
	}
}

// browser is a tab of a chromium that does what its pipe orders
// (chromedevtools.github.io/devtools-protocol): messages of JSON with a NUL after each.
type browser struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	last    int
	session string
	remarks []string // errors of pages, and what their policy forbade
}

type view struct {
	width, height int
	dark, noJS    bool
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	need(t, "chromium")
	profile, err := os.MkdirTemp("", "page-test-")
	require.NoError(t, err)
	theirIn, in, err := os.Pipe()
	require.NoError(t, err)
	out, theirOut, err := os.Pipe()
	require.NoError(t, err)
	var errs bytes.Buffer
	cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--user-data-dir="+profile, "--remote-debugging-pipe")
	cmd.Env = append(os.Environ(), "HOME="+profile, "XDG_CONFIG_HOME="+profile, "XDG_CACHE_HOME="+profile)
	cmd.ExtraFiles, cmd.Stderr = []*os.File{theirIn, theirOut}, &errs // 3 and 4
	require.NoError(t, cmd.Start())
	require.NoError(t, theirIn.Close())
	require.NoError(t, theirOut.Close())
	guard := time.AfterFunc(stuck, func() { cmd.Process.Kill() })
	b := &browser{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		b.ask("Browser.close", nil, nil)
		require.NoError(t, cmd.Wait(), "%s", errs.String())
		require.True(t, guard.Stop())
		in.Close()
		out.Close()
		require.NoError(t, os.RemoveAll(profile))
	})
	var target struct{ TargetID string }
	b.ask("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.ask("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.ask(domain+".enable", nil, nil)
	}
	return b
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Params json.RawMessage `json:"params"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// ask sends a command, and waits for its answer.
func (b *browser) ask(method string, params any, into any) {
	b.t.Helper()
	b.last++
	command := map[string]any{"id": b.last, "method": method}
	if params != nil {
		command["params"] = params
	}
	if b.session != "" && method != "Browser.close" {
		command["sessionId"] = b.session
	}
	text, err := json.Marshal(command)
	require.NoError(b.t, err)
	_, err = b.in.Write(append(text, 0))
	require.NoError(b.t, err)
	m := b.until(func(m message) bool { return m.ID == b.last })
	require.Nil(b.t, m.Error, "%s: %+v", method, m.Error)
	if into != nil {
		require.NoError(b.t, json.Unmarshal(m.Result, into))
	}
}

// until reads on, and keeps what pages complained of on the way.
func (b *browser) until(found func(message) bool) message {
	b.t.Helper()
	for {
		text, err := b.out.ReadBytes(0)
		require.NoError(b.t, err, "the browser ended")
		var m message
		require.NoError(b.t, json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m))
		switch m.Method {
		case "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled":
			b.remarks = append(b.remarks, string(m.Params))
		}
		if found(m) {
			return m
		}
	}
}

// visit shows a page.
func (b *browser) visit(url string, v view) {
	b.t.Helper()
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	b.ask("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.ask("Emulation.setScriptExecutionDisabled", map[string]any{"value": v.noJS}, nil)
	b.ask("Emulation.setDeviceMetricsOverride", map[string]any{"width": v.width, "height": v.height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.ask("Page.navigate", map[string]any{"url": url}, nil)
	b.until(func(m message) bool { return m.Method == "Page.loadEventFired" })
}

// open shows the exporter's page; its script has asked for the GPUs again when it returns.
func (b *browser) open(url string, v view) {
	b.t.Helper()
	b.visit(url, v)
	if !v.noJS {
		b.eval(`new Promise((done) => {
			const live = document.getElementById("live"), look = () => live.textContent.startsWith("Live") && done();
			new MutationObserver(look).observe(live, { childList: true, characterData: true, subtree: true });
			look();
		})`, nil)
	}
	require.Empty(b.t, b.remarks, "the page has an error, or its own policy forbids a part of it")
}

// eval returns what a script comes to.
func (b *browser) eval(script string, into any) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.ask("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &answer)
	require.Empty(b.t, string(answer.ExceptionDetails), script)
	if into != nil {
		require.NoError(b.t, json.Unmarshal(answer.Result.Value, into))
	}
}

// text is all that a reader of the page sees.
func (b *browser) text() (text string) {
	b.t.Helper()
	b.eval("document.body.innerText", &text)
	return text
}

// picture is of the whole page, whatever the view's height.
func (b *browser) picture() (data []byte, picture image.Image) {
	b.t.Helper()
	var shot struct{ Data string }
	b.ask("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(b.t, err)
	picture, err = png.Decode(bytes.NewReader(data))
	require.NoError(b.t, err)
	return data, picture
}
