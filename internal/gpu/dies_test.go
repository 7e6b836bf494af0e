package gpu_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Two packages: nodes 2 and 3, and 4 and 5. 3 and 4 have two links, 2 and 4 one.
func TestDiesOfAPackageHaveTheWidestLink(t *testing.T) {
	type widths map[[2]int]int
	for name, tt := range map[string]struct {
		device uint16
		change func(widths)
		want   map[int]int
	}{
		"MI250":                       {0x740c, func(widths) {}, map[int]int{0: 1, 1: 0, 2: 3, 3: 2}},
		"MI250X":                      {0x7408, func(widths) {}, map[int]int{0: 1, 1: 0, 2: 3, 3: 2}},
		"MI210, of one die":           {0x740f, func(widths) {}, map[int]int{}},
		"two links of equal width":    {0x740c, func(w widths) { w[[2]int{3, 4}] = 200000 }, map[int]int{}},
		"a die without its other die": {0x740c, func(w widths) { delete(w, [2]int{2, 3}); delete(w, [2]int{3, 4}) }, map[int]int{2: 3, 3: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, "mi210x4")
			links := widths{{2, 3}: 200000, {4, 5}: 200000, {3, 4}: 100000, {2, 4}: 50000}
			tt.change(links)
			n := 0
			for ends, width := range links {
				for _, e := range [][2]int{ends, {ends[1], ends[0]}} {
					hosttest.Put(t, r, fmt.Sprintf("%s/%d/io_links/%d/properties", nodes, e[0], 10+n),
						fmt.Sprintf("type %d\nnode_from %d\nnode_to %d\nweight 15\nmin_bandwidth 50000\nmax_bandwidth %d\n", xgmi, e[0], e[1], width))
					n++
				}
			}
			gpus := four(t, r)
			want := map[string]string{}
			for i := range gpus {
				gpus[i].DeviceID = tt.device
			}
			for i, j := range tt.want {
				want[gpus[i].Address()] = gpus[j].Address()
			}
			require.Equal(t, want, gpu.ReadDies(r, gpus))
		})
	}
}
