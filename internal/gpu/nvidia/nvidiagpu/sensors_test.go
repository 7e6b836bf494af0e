package nvidiagpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Units of hwmon are thousandths of degrees and volts, and millionths of watts.
func TestSensorsOfNouveauAreReadInTheUnitsOfAState(t *testing.T) {
	const dir = "/sys/devices/pci0000:00/0000:03:00.0"
	r := hosttest.Root(t)
	for name, text := range map[string]string{"temp1_input": "61000", "temp1_crit": "95000", "power1_input": "31500000", "power1_max": "75000000",
		"fan1_input": "1450", "in0_input": "900"} {
		hosttest.Put(t, r, dir+"/hwmon/hwmon3/"+name, text+"\n")
	}
	var s reading.State
	NewReader(r, gpu.Slot{Sysfs: dir}, nil, nil).readSensors(&s)
	require.Equal(t, amdgpu.Temperature{Sensor: gpuSensor, Now: amdgpu.Known(61), Critical: amdgpu.Known(95)}, s.Temperature)
	require.Equal(t, []amdgpu.Temperature{s.Temperature}, s.Temperatures)
	require.Equal(t, amdgpu.Power{Now: amdgpu.Known(31.5), Input: amdgpu.Known(31.5), Cap: amdgpu.Known(75)}, s.Power)
	require.Equal(t, amdgpu.Known(1450), s.Fan.RPM)
	require.Equal(t, []amdgpu.Rail{{Name: gpuSensor, Volts: .9}}, s.Rails)

	s = reading.State{}
	NewReader(hosttest.Root(t), gpu.Slot{Sysfs: dir}, nil, nil).readSensors(&s)
	require.Equal(t, reading.State{}, s, "NVIDIA's own driver has no hwmon")
}
