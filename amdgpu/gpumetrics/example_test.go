package gpumetrics_test

import (
	"fmt"
	"log"
	"os"

	"github.com/fourdollars/concourse-ci-machine/amdgpu/gpumetrics"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func ExampleDecode() {
	b, err := os.ReadFile(hosttest.HostsDir() + "/mi210x4/sys/class/drm/card1/device/gpu_metrics")
	if err != nil {
		log.Fatal(err)
	}
	revision, values, err := gpumetrics.Decode(b, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(revision)
	for _, v := range values {
		switch v.Field {
		case gpumetrics.TemperatureHotspot:
			fmt.Println(v.Value, "degrees Celsius")
		case gpumetrics.CurrentGfxclk:
			fmt.Println(v.Value/1e6, "MHz")
		}
	}
	// Output:
	// v1_3
	// 67 degrees Celsius
	// 1700 MHz
}
