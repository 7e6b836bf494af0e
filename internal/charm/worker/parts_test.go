package worker

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/status"
)

func TestCausesAreSortedByRankInAnyOrderOfParts(t *testing.T) {
	var web, gpus, driver part
	web.wait(rankWeb, "no web")
	gpus.block(rankGPUs, "no GPU")
	gpus.warn(rankGPUs, "1 GPU fewer")
	driver.block(rankDriver, "no driver")
	driver.cause(rankInstall, status.Active, "")
	want := []status.Cause{{Kind: status.Blocked, Text: "no driver"}, {Kind: status.Blocked, Text: "no GPU"},
		{Kind: status.Active, Text: "1 GPU fewer"}, {Kind: status.Waiting, Text: "no web"}}
	parts := []part{web, gpus, driver}
	require.Equal(t, want, join(parts...).sortedCauses())
	slices.Reverse(parts)
	require.Equal(t, want, join(parts...).sortedCauses())
}
