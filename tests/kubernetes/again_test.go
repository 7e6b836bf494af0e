//go:build kubernetes

package kubernetes

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// kubeletStartsAgain: a pod keeps its GPU, and the plugin registers again.
func kubeletStartsAgain(t *testing.T, kubelet, plugin *part) {
	unit(t, 2)
	running(t, "before", 0)
	held(t, 0, "default/before/work")
	was := statusOf(t, "before").ContainerStatuses[0].ContainerID
	registered := timesRegistered(t, plugin)
	kubelet.stop(t, syscall.SIGTERM)
	kubelet.start(t)
	eventually(t, "the plugin registers again", func() (string, bool) {
		now := timesRegistered(t, plugin)
		return "", now > registered
	})
	insist(t, "after", 1)
	require.Equal(t, nodes(1), opened(t, "after"))
	held(t, 1, "default/after/work")
	held(t, 0, "default/before/work")
	require.Equal(t, was, statusOf(t, "before").ContainerStatuses[0].ContainerID, "it runs on")
	pod(t, "third", 1)
	pending(t, "third")
}

func timesRegistered(t *testing.T, plugin *part) int {
	t.Helper()
	log, err := os.ReadFile(plugin.log())
	require.NoError(t, err)
	return strings.Count(string(log), "registered "+resource)
}

// insist makes a pod as controllers do: another in the place of one that the kubelet did
// not admit, as between its start and the plugin's list the node reports GPUs that can't be
// had.
func insist(t *testing.T, name string, gpus int) {
	t.Helper()
	pod(t, name, gpus)
	eventually(t, "pod "+name+" is admitted", func() (string, bool) {
		s := statusOf(t, name)
		if s.Phase == "Failed" {
			require.Equal(t, "UnexpectedAdmissionError", s.Reason, s.Message)
			end(t, name)
			create(t, name, gpus)
		}
		return s.Message, s.Phase == "Running"
	})
}

// pluginIsKilled: pods keep their GPUs, no one gets one and what ended is given back.
func pluginIsKilled(t *testing.T, plugin *part) {
	unit(t, 2)
	running(t, "stays", 0)
	running(t, "goes", 1)
	held(t, 0, "default/stays/work")
	held(t, 1, "default/goes/work")
	was := statusOf(t, "stays").ContainerStatuses[0].ContainerID
	plugin.stop(t, syscall.SIGKILL)
	offers(t, 0)
	end(t, "goes")
	for _, index := range []string{"0", "1"} {
		_, err := task(t, "refused"+index, "AMD_VISIBLE_DEVICES="+index)
		require.ErrorContains(t, err, "is held by pod default/")
	}
	pod(t, "between", 1)
	pending(t, "between")
	plugin.start(t)
	require.Equal(t, nodes(1), opened(t, "between"))
	held(t, 1, "default/between/work")
	held(t, 0, "default/stays/work")
	require.Equal(t, was, statusOf(t, "stays").ContainerStatuses[0].ContainerID, "it runs on")
	end(t, "between")
	held(t, 1, "")
}
