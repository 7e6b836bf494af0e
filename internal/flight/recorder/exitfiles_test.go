package recorder

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Podman removes the file 0.1 s after the end of the container, and Docker its folder.
func TestExitStatusIsKeptAfterTheRemovalOfItsFile(t *testing.T) {
	for name, folders := range map[string][3]string{
		"Podman": {"/run/exits/a", "/run/exits/b", "/run/exits/c"},
		"Docker": {"/run/a/config", "/run/b/config", "/run/c/config"},
	} {
		t.Run(name, func(t *testing.T) {
			e := exitFiles{root: hosttest.Root(t)}
			t.Cleanup(func() { require.NoError(t, e.close()) })
			one, other, unknown := folders[0], folders[1], folders[2]
			require.NoError(t, e.await(one), "without the folder")
			for _, file := range folders {
				hosttest.Put(t, e.root, file, "")
			}
			write := func(file, status string) {
				hosttest.Put(t, e.root, file, status)
				require.Eventually(t, func() bool {
					e.mu.Lock()
					defer e.mu.Unlock()
					return e.texts[file] == status
				}, time.Minute, time.Millisecond)
			}
			for _, status := range []string{"0", "7"} {
				require.NoError(t, os.RemoveAll(e.root.Path(one)))
				require.NoError(t, e.await(one), "the container is started again")
				require.NoError(t, e.await(other))
				_, err := e.last(one)
				require.Error(t, err, "it runs")
				hosttest.Put(t, e.root, unknown, "3")
				write(one, status)
				require.NoError(t, os.Remove(e.root.Path(one)))
				text, err := e.last(one)
				require.NoError(t, err)
				require.Equal(t, status, text)
			}
			require.NotContains(t, e.texts, unknown)
			require.NoError(t, e.forget(one))
			_, err := e.last(one)
			require.Error(t, err)
			write(other, "1")
			require.NoError(t, e.forget(other))
			require.NoError(t, e.forget(other))
			require.Empty(t, e.watcher.WatchList())
		})
	}
}
