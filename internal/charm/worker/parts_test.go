package worker

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
)

func TestCausesAreSortedByRankInAnyOrderOfParts(t *testing.T) {
	var web, gpus, driver part
	web.cause(rankWeb, status.Wait("no web"))
	gpus.cause(rankGPUs, status.Block("no GPU"))
	gpus.cause(rankGPUs, status.Warn("1 GPU missing"))
	driver.cause(rankDriver, status.Block("no driver"))
	driver.cause(rankInstall, status.Warn(""))
	want := []status.Cause{{Kind: status.Blocked, Text: "no driver"}, {Kind: status.Blocked, Text: "no GPU"},
		{Kind: status.Active, Text: "1 GPU missing"}, {Kind: status.Waiting, Text: "no web"}}
	parts := []part{web, gpus, driver}
	require.Equal(t, want, joined(parts...).sortedCauses())
	slices.Reverse(parts)
	require.Equal(t, want, joined(parts...).sortedCauses())
}

func joined(parts ...part) (all part) {
	all.join(parts...)
	return all
}
