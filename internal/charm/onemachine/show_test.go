package onemachine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
)

func TestTerminalShowsCausesInFull(t *testing.T) {
	long := "cannot download https://mirror.example/" + strings.Repeat("x", status.Limit)
	for want, causes := range map[string][]status.Cause{
		"active: Ready\n":                nil,
		"active: Ready\nwarning: slow\n": {status.Warn("slow")},
		"blocked: " + long + "\n  not there\n  run: a\n  on the host run: b\nwaiting: no web\nwarning: slow\n": {
			status.Block("%s", long).Explain("not there").Run("a").Fix("on the host run: b"), status.Wait("no web"), status.Warn("slow")},
	} {
		require.Equal(t, want, statusText("Ready", causes))
	}
}
