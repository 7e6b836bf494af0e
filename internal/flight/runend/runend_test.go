package runend_test

import (
	"fmt"
	"os"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/runend"
)

func TestTheNewestEndsOfRunsAreKeptForRootAlone(t *testing.T) {
	root := host.Root(t.TempDir())
	require.NoError(t, root.MkdirAll(path.Dir(runend.Path), 0o755))
	w := runend.Writer{Root: root}
	at, exit := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC), 137
	e := runend.End{Title: "ada: pytest", GPUs: []string{"0000:23:00.0"}, Started: at, Ended: at.Add(time.Hour),
		Exit: &exit}
	var all sync.WaitGroup
	for i := range runend.MaxEnds {
		all.Go(func() {
			e := e
			e.ID = fmt.Sprintf("run-%d", i)
			require.NoError(t, w.Add(e))
		})
	}
	all.Wait()
	next := runend.Writer{Root: root} // of a service that was restarted
	e.ID, e.Exit = "run-last", nil
	require.NoError(t, next.Add(e))

	got, err := runend.File.Read(root)
	require.NoError(t, err)
	require.Len(t, got.Ends, runend.MaxEnds)
	require.Equal(t, e, got.Ends[runend.MaxEnds-1])
	require.Equal(t, &exit, got.Ends[0].Exit)
	info, err := os.Stat(root.Path(runend.Path))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}
