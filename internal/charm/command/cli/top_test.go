package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// startExporter returns an exporter that answers when a test sends the name of the container
// on GPU 1, "" for an error. Without it, a request hangs.
func startExporter(t *testing.T) (url string, answers chan<- string) {
	t.Helper()
	names := make(chan string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case name := <-names:
			if name == "" {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			fmt.Fprintf(w, `{"host": "gpu-b02", "time": "2026-01-02T03:04:05Z", "gpus": [
				{"index": 0, "name": "AMD Instinct MI300X", "pci_bus_id": "0000:0a:00.0", "health": {"state": "healthy"}, "lease": {"held": false},
				 "temperature_celsius": 80, "temperature_limit_celsius": 100, "activity_ratio": 0.1},
				{"index": 1, "name": "AMD Instinct MI210", "pci_bus_id": "0000:1b:00.0", "health": {"state": "critical", "reason": "1 bad memory page"},
				 "temperature_celsius": 40, "temperature_limit_celsius": 100, "activity_ratio": 0.9,
				 "users": [{"container": %q, "processes": 1}], "lease": {"held": true, "container": %[1]q, "since": "2026-01-02T03:00:05Z"}}]}`, name)
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL, names
}

func TestTopShowsEachAnswerUntilCtrlC(t *testing.T) {
	url, answers := startExporter(t)
	c := startConsole(t, url, `set -m; echo before; "$DISPATCH" gpu top --interval 1s; echo "ended $?"`)
	c.answer(answers, "task1")
	screen := c.until("task1", "GPU 1 is critical: 1 bad memory page")
	require.NotContains(t, screen, "before", "that is on the normal page")
	require.Contains(t, screen, ", 03:04:05 UTC\n")
	require.Contains(t, screen, "TEMP °C", "temperature is on a terminal of 80 columns")
	require.Equal(t, 1, c.alternate)
	require.NotZero(t, c.colours)

	c.answer(answers, "task2")
	require.NotContains(t, c.until("task2"), "task1")
	c.answer(answers, "")
	require.Contains(t, c.until("NOT LIVE: ", "the exporter answers 500"), "task2")
	c.answer(answers, "task3")
	require.NotContains(t, c.until("task3"), "NOT LIVE")

	c.press("\x03")
	require.Contains(t, c.until("ended 0"), "before", "the page before is back")
	c.requireRestored()
	require.NoError(t, c.command.Wait())
}

func TestTopFollowsTheSizeAndHasNoColoursWithNO_COLOR(t *testing.T) {
	url, answers := startExporter(t)
	c := startConsole(t, url, `exec "$DISPATCH" gpu top --interval 1s`, "NO_COLOR=1")
	c.answer(answers, "task1")
	c.until("task1")
	c.resize(120, 30)
	c.answer(answers, "task2")
	c.until("task2", "LEASED", "4m")
	require.Zero(t, c.colours)
	c.press("\x03")
	require.NoError(t, c.command.Wait())
}

func TestTopIsShownOnceWithoutAScreen(t *testing.T) {
	for script, want := range map[string]string{
		`TERM=dumb "$DISPATCH" gpu top; echo "ended $?"`:     "TEMP °C  POWER W",
		`"$DISPATCH" gpu top | cat; echo "ended $?"`:         "TEMP °C  POWER W",
		`"$DISPATCH" gpu top --json; echo "ended $?"`:        `"pci_bus_id"`,
		`"$DISPATCH" gpu top --once; echo "ended $?"`:        "TEMP °C  POWER W",
		`"$DISPATCH" gpu top --interval 1ms; echo "done $?"`: "done 2",
	} {
		url, answers := startExporter(t)
		c := startConsole(t, url, script)
		c.resize(300, 70)
		if !strings.Contains(script, "1ms") {
			c.answer(answers, "task1")
		}
		c.until(want)
		require.NoError(t, c.command.Wait())
		c.requireRestored()
	}
}
