// Command collector prints metrics of AMD GPUs, as a collector of node_exporter would.
package main

import (
	"fmt"
	"os"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
)

// metrics maps names to their values in a reading.
var metrics = []struct {
	name  string
	value func(*amdgpu.State) amdgpu.Number
}{
	{"power_watts", func(s *amdgpu.State) amdgpu.Number { return s.Power.Now }},
	{"busy_ratio", func(s *amdgpu.State) amdgpu.Number { return s.Activity.Graphics }},
	{"vram_used_bytes", func(s *amdgpu.State) amdgpu.Number { return s.Memory.VRAM.Used }},
	{"fan_rpm", func(s *amdgpu.State) amdgpu.Number { return s.Fan.RPM }},
}

func main() {
	devices, err := amdgpu.Devices(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot find GPUs:", err)
		os.Exit(1)
	}
	for _, d := range devices {
		r := amdgpu.NewReader(d, amdgpu.Options{Root: os.Args[1]})
		s := r.Read()
		r.Close()
		for _, m := range metrics {
			if v := m.value(&s); v.Known {
				fmt.Printf("amdgpu_%s{pci=%q} %g\n", m.name, d.PCI, v.Value)
			}
		}
	}
}
