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
// on GPU 1, "" for an error. Without it, a request hangs. GPU 0 is hotter, and GPU 1 has
// more load.
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

// gpuLines returns the names of the GPUs on the screen, in order.
func gpuLines(screen string) (names []string) {
	for line := range strings.SplitSeq(screen, "\n") {
		for _, name := range []string{"MI300X", "MI210"} {
			if strings.Contains(line, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// The shell has job control, as the shell of a person has.
func TestTopFollowsKeysAndRestoresTheTerminal(t *testing.T) {
	url, answers := startExporter(t)
	c := startConsole(t, url, `set -m
		echo before; "$DISPATCH" gpu top --interval 1s; echo "stopped $?"; stty -a; read line; fg; echo "ended $?"; read line`)
	c.answer(answers, "task1")
	screen := c.until("task1", "sort: GPU", "GPU 1 is critical: 1 bad memory page")
	require.Equal(t, []string{"MI300X", "MI210"}, gpuLines(screen))
	require.NotContains(t, screen, "before", "that is on the normal page")
	require.Contains(t, screen, "03:04:05 UTC\n", "a full line keeps its last character")
	require.Contains(t, screen, "TEMP °C", "temperature is on a terminal of 80 columns")
	require.Equal(t, 1, c.alternate)
	require.False(t, c.cooked())
	require.NotZero(t, c.colours)

	c.press("s")
	require.Equal(t, []string{"MI210", "MI300X"}, gpuLines(c.until("sort: load")))
	c.press("s")
	require.Equal(t, []string{"MI300X", "MI210"}, gpuLines(c.until("sort: temperature")))

	c.press("f")
	c.until("FROZEN", "f go on")
	c.answer(answers, "task2")
	c.answer(answers, "task3") // the program has the answer before: it asks for one at a time
	c.press("s")
	require.Contains(t, c.until("sort: power", "FROZEN"), "task1")
	c.press("f")
	require.NotContains(t, c.until("f freeze"), "task1")

	c.press("\x1b[B")
	c.until(">  1")
	c.press("\n")
	require.NotContains(t, c.until("0000:1b:00.0", "Temperature", "Esc back"), "0000:0a:00.0")
	c.press("\x1b[D")
	c.until("0000:0a:00.0")
	c.press("\x1b")
	c.until("sort: power", ">  0")

	c.answer(answers, "")
	c.until("NOT LIVE", "the exporter answers 500; the values are of 03:04:05 UTC")
	c.press("h") // no answer comes now
	c.until("Ctrl-Z       suspend")
	c.press("?")
	c.until("NOT LIVE", "sort: power")
	c.answer(answers, "task4")
	c.until("task4", "03:04:05 UTC")

	c.resize(120, 30)
	c.until("LEASED", "4m")

	c.press("\x1a")
	require.NotContains(t, c.until("stopped 148", " icanon"), "task4")
	c.requireRestored()
	c.press("\n")
	c.until("task4", "LEASED")
	require.False(t, c.cooked())

	c.press("q")
	require.Contains(t, c.until("ended 0"), "stopped 148", "the page before is back")
	c.requireRestored()
	c.press("\n")
	require.NoError(t, c.command.Wait())
}

// A program that starts another session, as docker exec does, has no shell to continue it.
func TestTopIsNotStoppedWithoutAShell(t *testing.T) {
	url, answers := startExporter(t)
	c := startConsole(t, url, `exec "$DISPATCH" gpu top --interval 1s`)
	c.answer(answers, "task1")
	c.until("task1", "sort: GPU")
	c.press("\x1as")
	c.until("sort: load")
	c.press("\x03") // Ctrl-C
	require.NoError(t, c.command.Wait())
	require.True(t, c.cooked())
}

func TestTopWithoutKeysEndsAtCtrlC(t *testing.T) {
	url, answers := startExporter(t)
	c := startConsole(t, url, `set -m; "$DISPATCH" gpu top --interval 1s </dev/null; echo "ended $?"`, "NO_COLOR=1")
	c.answer(answers, "task1")
	c.until("task1", "Ctrl-C quits")
	require.True(t, c.cooked(), "the terminal's input is not used")
	c.answer(answers, "task2")
	c.until("task2")
	require.Zero(t, c.colours)
	c.press("\x03")
	c.until("ended 0")
	c.requireRestored()
	require.NoError(t, c.command.Wait())
}

func TestTopIsShownOnceWithoutAScreen(t *testing.T) {
	for script, want := range map[string]string{
		`TERM=dumb "$DISPATCH" gpu top; echo "ended $?"`:     "BUSY",
		`"$DISPATCH" gpu top | cat; echo "ended $?"`:         "BUSY",
		`"$DISPATCH" gpu top --json; echo "ended $?"`:        `"pci_bus_id"`,
		`"$DISPATCH" gpu top --once; echo "ended $?"`:        "TEMP °C  POWER W",
		`"$DISPATCH" gpu top --once | cat; echo "ended $?"`:  "BUSY",
		`"$DISPATCH" gpu top --interval 1ms; echo "done $?"`: "done 2",
	} {
		url, answers := startExporter(t)
		c := startConsole(t, url, script)
		c.resize(200, 70)
		if !strings.Contains(script, "1ms") {
			c.answer(answers, "task1")
		}
		require.NotContains(t, c.until(want), "sort:", script)
		require.NoError(t, c.command.Wait())
		c.requireRestored()
	}
}
