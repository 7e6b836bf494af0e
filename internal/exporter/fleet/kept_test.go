package fleet

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
)

// lived returns a fleet with two rounds of history, and the file that has it.
func lived(t *testing.T) (b *bed, again func() *bed, path string) {
	t.Helper()
	folder, text := t.TempDir(), gpusJSON(200)
	url := worker(t, &text)
	at := time.Time{}
	begin := func() *bed {
		n := bedIn(t, folder)
		if !at.IsZero() {
			n.time = at
		}
		n.write(t, fleetfile.File{Workers: []fleetfile.Worker{{Unit: "gpu/0", URL: url, Count: 3}}})
		return n
	}
	b = begin()
	b.Round(context.Background())
	b.time = b.time.Add(30 * time.Second)
	b.Round(context.Background())
	at = b.time.Add(time.Second)
	return b, begin, filepath.Join(folder, "history.json")
}

func TestHistorySurvivesARestart(t *testing.T) {
	b, again, path := lived(t)
	info, err := os.Stat(path)
	require.NoError(t, err, "the first round writes the file")
	require.Equal(t, os.FileMode(0o600), info.Mode())
	killed := again()
	require.Empty(t, killed.day.teams, "a kill loses at most a minute")
	b.saveHistories(b.time)
	next := again()
	require.Equal(t, b.day.report(), next.day.report())
	require.Equal(t, b.history.report(), next.history.report())
	next.Round(context.Background())
	r := next.report(t)
	require.Equal(t, b.day.report(), r.Today, "the time between two runs counts for no team")
	require.Equal(t, .4, *r.History.Load[points-1])
	require.Empty(t, next.logs.String())

	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Less(t, len(before), 64<<10)
	next.time = next.time.Add(keepEvery - time.Second)
	next.Round(context.Background())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "it is written once a minute")
	next.time = next.time.Add(time.Second)
	next.Round(context.Background())
	after, err = os.ReadFile(path)
	require.NoError(t, err)
	require.NotEqual(t, string(before), string(after))
}

func TestDamagedHistoryIsNamedAndBeginsAgain(t *testing.T) {
	for name, damage := range map[string]func([]byte) string{
		"cut":              func(b []byte) string { return string(b[:len(b)/2]) },
		"empty":            func([]byte) string { return "" },
		"another file":     func([]byte) string { return "[1]" },
		"a negative sum":   func([]byte) string { return `{"teams":{"main":{"seconds":-1}}}` },
		"no number":        func([]byte) string { return `{"sums":[[1e300]]}` },
		"impossible time":  func([]byte) string { return `{"last":-1}` },
		"an early day":     func([]byte) string { return `{"since":"0100-01-01T00:00:00Z"}` },
		"a negative count": func([]byte) string { return `{"counts":[[-1]]}` },
	} {
		t.Run(name, func(t *testing.T) {
			b, again, path := lived(t)
			b.saveHistories(b.time)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, []byte(damage(data)), 0o600))
			next := again()
			require.Contains(t, next.logs.String(), "the history of the fleet page begins again: cannot read "+path+": it is damaged")
			require.Equal(t, history{}, next.history)
			next.Round(context.Background())
			k, err := next.keptFile().Read(host.Root("/"))
			require.NoError(t, err, "a valid file replaces it")
			require.Equal(t, next.history.last, k.Last)
		})
	}
}

func TestHistoryOfALaterVersionStays(t *testing.T) {
	_, again, path := lived(t)
	const later = `{"format_version":9}`
	require.NoError(t, os.WriteFile(path, []byte(later), 0o600))
	b := again()
	b.Round(context.Background())
	b.saveHistories(b.time)
	require.Equal(t, 1, strings.Count(b.logs.String(), "cannot store the history"), "one line for equal failures")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, later, string(data))
}
