package recorder_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
)

// meter adds to the energy counter of gpu_metrics v1.3, which counts in units of 15.259 µJ.
type meter struct {
	*world
	gpu  string
	data []byte
}

func (w *world) meter(gpu string) *meter {
	data, err := w.root.ReadFile(device(gpu, "gpu_metrics"))
	require.NoError(w.t, err)
	return &meter{w, gpu, data}
}

func (m *meter) add(joules float64) {
	const at, unit = 24, 15.259e-6
	sum := binary.LittleEndian.Uint64(m.data[at:])
	binary.LittleEndian.PutUint64(m.data[at:], sum+uint64(joules/unit))
	m.put(device(m.gpu, "gpu_metrics"), string(m.data))
}

// scan writes the scan of the users of a GPU: the part of the time that each worked.
func (w *world) scan(address string, worked map[string]float64) {
	r := usage.Result{At: w.now, Devices: []usage.Used{{Slot: gpu.Slot{PCI: address}}}}
	for name, part := range worked {
		r.Devices[0].Rows = append(r.Devices[0].Rows, usage.Row{Container: name, Processes: 1,
			Busy: []usage.Amount{{Name: "gfx", Value: part}}})
	}
	require.NoError(w.t, usage.File(usageReport).Write(w.root, r))
}

// end ends tasks and returns their energies.
func (w *world) end(tasks ...*task) (all []*taskrecord.Energy) {
	for _, c := range tasks {
		c.ends(0)
	}
	w.run(40 * time.Second)
	for _, c := range tasks {
		r, v := w.verdict(c.handle)
		e := verdict.EntryOf(&r, v).Energy
		require.NotNil(w.t, e)
		all = append(all, e)
	}
	return all
}

func TestTasksThatShareAGPUHaveEqualPartsOfItsEnergyWithoutAScan(t *testing.T) {
	const watts, seconds = 150, 60
	w := newWorld(t)
	m := w.meter(gpu1)
	tasks := []*task{w.task(handle, gpu1), w.task(neighbour, gpu1)}
	w.run(seconds*time.Second, func() { m.add(watts) })
	for _, e := range w.end(tasks...) {
		require.True(t, e.Estimate)
		require.InEpsilon(t, watts*seconds/2, e.Joules, .05, "of readings a second apart")
	}
}

// Two tasks and a container of another engine share a GPU. Power and work change.
func TestEnergyOfTasksThatShareAGPUIsTheIntegralOfTheirWork(t *testing.T) {
	w := newWorld(t)
	m := w.meter(gpu1)
	tasks := []*task{w.task(handle, gpu1), w.task(neighbour, gpu1)}
	own, worked := map[string]float64{}, map[string]float64{}
	second := 0
	w.run(10*time.Minute, func() {
		second++
		power := 250 + 150*math.Sin(float64(second)/50)
		share := .4 + .2*math.Cos(float64(second)/80)
		m.add(power)
		for name, part := range map[string]float64{handle: share, neighbour: .9 - share, "docker": .1} {
			own[name] += power * part
			worked[name] += .8 * part / 15
		}
		if second%15 == 0 {
			w.scan(gpu1, worked)
			clear(worked)
		}
	})
	all := w.end(tasks...)
	require.InEpsilon(t, own[handle], all[0].Joules, .01)
	require.InEpsilon(t, own[neighbour], all[1].Joules, .01)
	require.True(t, all[0].Estimate)
}

// The first die of an MI250 reports the energy of the package, the second one reports 0.
func TestEnergyOfASecondDieIsFromItsPackage(t *testing.T) {
	const watts, seconds = 400, 60
	for name, tt := range map[string]struct {
		tasks [][]string // of each task its GPUs
		part  float64
	}{
		"a task on both dies":     {[][]string{{gpu0, gpu1}}, 1},
		"a task on the first":     {[][]string{{gpu0}}, 1},
		"a task on the second":    {[][]string{{gpu1}}, 1},
		"a task on each die":      {[][]string{{gpu0}, {gpu1}}, .5},
		"one on both, one on one": {[][]string{{gpu0, gpu1}, {gpu1}}, .5},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, g := range []string{gpu0, gpu1} {
				w.put(device(g, "uevent"), "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_ID=1002:740C\nPCI_SLOT_NAME="+g+"\n")
			}
			const node = "/sys/class/kfd/kfd/topology/nodes/%d/io_links/0/properties"
			const link = "type 11\nnode_from %d\nnode_to %d\nweight 15\nmin_bandwidth 50000\nmax_bandwidth 200000\n"
			w.put(fmt.Sprintf(node, 2), fmt.Sprintf(link, 2, 3))
			w.put(fmt.Sprintf(node, 3), fmt.Sprintf(link, 3, 2))
			m, second := w.meter(gpu0), w.meter(gpu1)
			clear(second.data[22:32]) // power and energy
			second.add(0)
			for _, g := range []string{"power1_average", "power1_input"} {
				hwmon, err := w.root.Glob(device(gpu1, "hwmon/*/"+g))
				require.NoError(t, err)
				for _, file := range hwmon {
					w.put(file, "0\n")
				}
			}
			var tasks []*task
			for i, gpus := range tt.tasks {
				tasks = append(tasks, w.task([]string{handle, neighbour}[i], gpus...))
			}
			w.run(seconds*time.Second, func() { m.add(watts) })
			for _, e := range w.end(tasks...) {
				require.InEpsilon(t, watts*seconds*tt.part, e.Joules, .05, "of readings a second apart")
				require.Empty(t, e.Unmeasured)
				require.Equal(t, tt.part < 1, e.Estimate)
			}
		})
	}
}
