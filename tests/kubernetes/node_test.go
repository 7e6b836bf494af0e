//go:build kubernetes

package kubernetes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOne(t *testing.T) {
	need(t)
	newCluster(t, "containerd")
	pod(t, "plain", 0)
	require.Equal(t, []string{"done\n"}, opened(t, "plain"))
	end(t, "plain")
}
