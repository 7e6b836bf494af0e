package recorder

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Podman removes the file 0.1 s after the end of the container.
func TestStatusOfPodmanIsKeptAfterTheRemovalOfItsFile(t *testing.T) {
	e := exits{root: hosttest.Root(t)}
	t.Cleanup(func() { require.NoError(t, e.close()) })
	end := func(id, status string) {
		hosttest.Put(t, e.root, podmanExits+"/"+id, status)
		require.Eventually(t, func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			text, awaited := e.texts[id]
			return text == status || !awaited
		}, time.Minute, time.Millisecond)
		require.NoError(t, os.Remove(e.root.Path(podmanExits+"/"+id)))
	}
	require.ErrorContains(t, e.await("a"), "cannot watch /run/libpod/exits for exit statuses: ")
	end("b", "3") // it makes the folder
	for _, status := range []string{"0", "7"} {
		require.NoError(t, e.await("a"), "the container is started again")
		_, err := e.status("a")
		require.Error(t, err, "it runs")
		end("c", "5")
		end("a", status)
		text, err := e.status("a")
		require.NoError(t, err)
		require.Equal(t, status, text)
	}
	_, err := e.status("c")
	require.Error(t, err, "no one has asked for it")
	e.forget("a")
	_, err = e.status("a")
	require.Error(t, err)
}
