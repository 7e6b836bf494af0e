package gpu_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// BenchmarkDiscover is what every hook pays. BenchmarkReadFloor reads as many
// bytes of the same files with nothing around, to compare with.
func BenchmarkDiscover(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("%dgpus", n), func(b *testing.B) {
			r := hosttest.ManyGPUs(b, n)
			for b.Loop() {
				inv, err := gpu.Discover(r)
				if err != nil || len(inv.GPUs) != n {
					b.Fatal(len(inv.GPUs), err)
				}
			}
		})
	}
}

// BenchmarkReadFloor opens, reads and closes eight files a GPU, as many as
// discovery needs of each: four identities, two numbers, the topology and the
// bridge above.
func BenchmarkReadFloor(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("%dgpus", n), func(b *testing.B) {
			r := hosttest.ManyGPUs(b, n)
			files := floorFiles(b, r)
			for b.Loop() {
				for _, f := range files {
					if _, err := os.ReadFile(f); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func floorFiles(b *testing.B, r host.Root) (files []string) {
	inv, err := gpu.Discover(r)
	if err != nil {
		b.Fatal(err)
	}
	for _, g := range inv.GPUs {
		for _, name := range []string{"uevent", "revision", "product_name", "unique_id", "../uevent"} {
			files = append(files, r.Path(g.Sysfs+"/"+name))
		}
		files = append(files, r.Path(g.DRM+"/dev"), r.Path(fmt.Sprintf("/sys/class/drm/renderD%d/dev", g.Render.Minor)),
			r.Path(fmt.Sprintf("%s/%d/properties", nodes, g.KFDNode)))
	}
	return files
}

// BenchmarkSelect: the work does not grow with the numbers written.
func BenchmarkSelect(b *testing.B) {
	have := gpus(64, false)
	for _, spec := range []string{"0-63", "0-99999999999999999999"} {
		b.Run(spec, func(b *testing.B) {
			for b.Loop() {
				gpu.Select(have, spec)
			}
		})
	}
}
