package recorder

import (
	"fmt"
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
		"Docker": {"/run/a/" + dockerFile, "/run/b/" + dockerFile, "/run/c/" + dockerFile},
	} {
		t.Run(name, func(t *testing.T) {
			e := exitFiles{root: hosttest.Root(t)}
			t.Cleanup(func() { require.NoError(t, e.close()) })
			one, other, unknown := folders[0], folders[1], folders[2]
			require.NoError(t, e.await(one), "without the folder")
			for _, file := range folders {
				hosttest.Put(t, e.root, file, "")
			}
			write := func(file string, status int) {
				text := fmt.Sprint(status)
				if name == "Docker" {
					text = `{"State":{"ExitCode":` + text + `},"Config":{"Env":["TOKEN=secret"]}}`
				}
				hosttest.Put(t, e.root, file, text)
				require.Eventually(t, func() bool {
					e.mu.Lock()
					defer e.mu.Unlock()
					return e.statuses[file] != nil && *e.statuses[file] == status
				}, time.Minute, time.Millisecond)
			}
			for _, status := range []int{0, 7} {
				require.NoError(t, os.RemoveAll(e.root.Path(one)))
				require.NoError(t, e.await(one), "the container is started again")
				require.NoError(t, e.await(other))
				_, err := e.last(one)
				require.Error(t, err, "it runs")
				hosttest.Put(t, e.root, unknown, "3")
				write(one, status)
				hosttest.Put(t, e.root, one, `{"State":{"Running":true}}`)
				for range 2 { // it may have been started again, and then it was removed
					got, err := e.last(one)
					require.NoError(t, err)
					require.Equal(t, &status, got)
					require.NoError(t, e.root.Remove(one))
				}
			}
			require.NotContains(t, e.statuses, unknown)
			require.NoError(t, e.forget(one))
			_, err := e.last(one)
			require.Error(t, err)
			write(other, 1)
			require.NoError(t, e.forget(other))
			require.NoError(t, e.forget(other))
			require.Empty(t, e.watches)
		})
	}
}
