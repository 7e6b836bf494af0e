package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestReportThatIsMissingDamagedOrOldIsUnknown(t *testing.T) {
	const path = "/run/gpus.json"
	for name, c := range map[string]struct {
		content string
		want    string
	}{
		"missing":  {"", "the GPUs were not read yet"},
		"damaged":  {"{", "it is damaged"},
		"no GPU":   {`{"time":"` + hosttest.Now.Format(time.RFC3339) + `"}`, "no GPU was found"},
		"fresh":    {`{"time":"` + hosttest.Now.Add(-Stale).Format(time.RFC3339) + `","gpus":[{"pci_bus_id":"0000:03:00.0"}]}`, ""},
		"old":      {`{"time":"` + hosttest.Now.Add(-Stale-time.Second).Format(time.RFC3339) + `","gpus":[{}]}`, "the last reading of the GPUs is of " + hosttest.Now.Add(-Stale-time.Second).UTC().Format(time.DateTime) + " UTC"},
		"tomorrow": {`{"time":"` + hosttest.Now.Add(24*time.Hour).Format(time.RFC3339) + `","gpus":[{}]}`, "the last reading of the GPUs is of "},
	} {
		r := hosttest.Root(t)
		if c.content != "" {
			hosttest.Put(t, r, path, c.content)
		}
		report, err := Read(r, path, hosttest.Now)
		if c.want == "" {
			require.NoError(t, err, name)
			require.Len(t, report.GPUs, 1)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
	}
}
