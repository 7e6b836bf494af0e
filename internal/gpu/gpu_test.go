package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestStyleNamesThePartitioning(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"partitioned":          {map[string]string{"compute": "CPX\n", "memory": "NPS4\n"}, "cpx_nps4"},
		"one that can't be":    {nil, ""},
		"without memory's own": {map[string]string{"compute": "SPX\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Root(t)
			for kind, text := range tt.files {
				hosttest.Put(t, r, "/sys/devices/a/current_"+kind+"_partition", text)
			}
			require.Equal(t, tt.want, Style(r, GPU{Slot: Slot{Sysfs: "/sys/devices/a"}}))
		})
	}
}
