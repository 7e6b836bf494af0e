package amdgpu_test

import (
	"fmt"
	"log"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// A copy of a machine's files with four MI210. On a machine, root is "".
var root = hosttest.HostsDir() + "/mi210x4"

func Example() {
	devices, err := amdgpu.Devices(root)
	if err != nil {
		log.Fatal(err)
	}
	limit := amdgpu.NewLimit() // of open files, for all readers together
	for _, d := range devices {
		r := amdgpu.NewReader(d, amdgpu.Options{Root: root, Limit: limit})
		defer r.Close()
		s := r.Read()
		fmt.Printf("%s %s: %.0f W, %s %.0f °C\n", d.PCI, s.Identity.UUID, s.Power.Now.Value, s.Temperature.Sensor,
			s.Temperature.Now.Value)
	}
	// Output:
	// 0000:23:00.0 GPU-7c1e55a90b34d2f6: 241 W, edge 61 °C
	// 0000:43:00.0 GPU-2f90ab16c8e7431d: 247 W, edge 63 °C
	// 0000:83:00.0 GPU-d3481fe60972b5ac: 42 W, edge 37 °C
	// 0000:c3:00.0 GPU-915b7ce2af083d64: 44 W, edge 38 °C
}

// A value that the hardware lacks is unknown, and a file that fails is named.
func ExampleReader_Read() {
	devices, err := amdgpu.Devices(root)
	if err != nil {
		log.Fatal(err)
	}
	r := amdgpu.NewReader(devices[0], amdgpu.Options{Root: root})
	defer r.Close()
	s := r.Read()
	fmt.Println("fan known:", s.Fan.RPM.Known)
	fmt.Println("table:", s.Table.Revision, "failures:", len(s.Failures))
	// Output:
	// fan known: false
	// table: v1_3 failures: 0
}
