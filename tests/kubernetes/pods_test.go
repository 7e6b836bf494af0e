//go:build kubernetes

package kubernetes

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func apply(t *testing.T, yaml string) {
	t.Helper()
	status, answer, err := call(http.MethodPost, pods, yaml)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, status, answer)
}

// pod makes one that asks for GPUs; with 0 it does not speak of them. It ends with the test.
func pod(t *testing.T, name string, gpus int) {
	t.Helper()
	t.Cleanup(func() { end(t, name) })
	create(t, name, gpus)
}

// running makes a pod that asks for as many GPUs as these, and gets these.
func running(t *testing.T, name string, gpus ...int) {
	t.Helper()
	pod(t, name, len(gpus))
	require.Equal(t, nodes(gpus...), opened(t, name))
}

func create(t *testing.T, name string, gpus int) {
	t.Helper()
	limits := "{}"
	if gpus > 0 {
		limits = fmt.Sprintf("{limits: {amd.com/gpu: %d}}", gpus)
	}
	apply(t, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: work, image: busybox, resources: %s}]}}", name, limits))
}

func statusOf(t *testing.T, name string) podStatus {
	t.Helper()
	var p struct{ Status podStatus }
	get(t, pods+"/"+name, &p)
	return p.Status
}

// opened waits until a pod runs and has reported which of the nodes it finds it opens.
func opened(t *testing.T, name string) []string {
	t.Helper()
	return openedBy(t, name, "")
}

// openedBy does the same for one container of a pod.
func openedBy(t *testing.T, name, container string) []string {
	t.Helper()
	out := ""
	eventually(t, "pod "+name+" tells what it opens", func() (string, bool) {
		status, said, err := call(http.MethodGet, pods+"/"+name+"/log?container="+container, "")
		out = said
		if strings.HasSuffix(said, "done\n") && status == http.StatusOK {
			return "", true
		}
		return fmt.Sprintf("%s %v\n%+v\n%s", said, err, statusOf(t, name), events(t, name)), false
	})
	return strings.Fields(strings.TrimSuffix(out, "done\n"))
}

// end deletes a pod, if it is there, and waits until the node has ended it.
func end(t *testing.T, name string) {
	t.Helper()
	status, answer, err := call(http.MethodDelete, pods+"/"+name+"?gracePeriodSeconds=1", "")
	require.NoError(t, err)
	require.Contains(t, []int{http.StatusOK, http.StatusNotFound}, status, answer)
	eventually(t, "pod "+name+" is gone", func() (string, bool) {
		status, answer, err := call(http.MethodGet, pods+"/"+name, "")
		return fmt.Sprint(answer, err), status == http.StatusNotFound
	})
}
