package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
)

func TestWorkerWithAVersionOfItsOwnShowsThatItGetsNoWork(t *testing.T) {
	for name, c := range map[string]struct {
		own, web string
		text     string
	}{
		"it follows the web":   {"", "8.3.0", ""},
		"it fits":              {"8.3.1", "8.3.0", ""},
		"it is older":          {"8.2.5", "8.3.0", "a worker of Concourse 8.2.5 gets no work from a web of 8.3.0: to follow the web, run juju config gpu --reset version"},
		"it is newer":          {"8.3.0", "8.2.5", "a worker of Concourse 8.3.0 gets no work from a web of 8.2.5: to follow the web, run juju config gpu --reset version"},
		"the web is not known": {"8.3.0", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var o Observed
			o.Facts.Unit, o.Config.Version, o.TSA = "gpu/0", c.own, concourse.TSA{Version: c.web}
			var got []status.Cause
			for _, cause := range webCauses(o).sortedCauses() {
				if cause.Kind == status.Blocked {
					got = append(got, cause)
				}
			}
			if c.text == "" {
				require.Empty(t, got)
				return
			}
			require.Equal(t, []status.Cause{{Kind: status.Blocked, Text: c.text}}, got)
		})
	}
}
