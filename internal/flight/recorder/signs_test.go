package recorder_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

const on = "amdgpu " + gpu1 + ": "

var mes = []string{on + "MES failed to respond to msg=REMOVE_QUEUE", on + "MES might be in unrecoverable state, issue a GPU reset"}

// signsWorld returns a machine without memory in use on its GPU.
func signsWorld(t *testing.T) *world {
	w := newWorld(t)
	w.put(device(gpu1, "mem_info_vram_used"), "0")
	return w
}

func (w *world) sayAll(lines ...string) {
	for _, line := range lines {
		w.say(line)
	}
}

// Each case has the lines of one cause, during a task that then fails or is stopped.
func TestLinesOfTheDriverDecide(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		exit  int
		code  string
		kind  verdict.Kind
	}{
		"MES, stopped":           {mes, killed, "gpu-hang", verdict.GPU},
		"MES, old form":          {[]string{on + "[drm:mes_v11_0_submit_pkt_and_poll_completion.constprop.0 [amdgpu]] *ERROR* MES failed to response msg=3"}, 1, "gpu-hang", verdict.GPU},
		"preemption":             {[]string{on + "amdgpu: qcm fence wait loop timeout expired"}, terminated, "gpu-hang", verdict.GPU},
		"firmware of power":      {[]string{on + "SMU is in hanged state, failed to send smu message!"}, 1, "gpu-hang", verdict.GPU},
		"another ring":           {[]string{on + "ring sdma0 timeout, signaled seq=309, emitted seq=313", on + "Starting sdma0 ring reset", on + "Ring sdma0 reset failed"}, 1, "gpu-hang", verdict.GPU},
		"data lost":              {[]string{on + "{4}poison is consumed by client 12, kick off gpu reset flow"}, 1, "gpu-memory-error", verdict.GPU},
		"no address of two GPUs": {[]string{"amdgpu: qcm fence wait loop timeout expired"}, 1, "exit-status", verdict.Task},
		"harmless":               {[]string{on + "Runlist is getting oversubscribed. Expect reduced ROCm performance.", on + "MES(0) failed to respond to msg=INVALIDATE_TLBS"}, 1, "exit-status", verdict.Task},
		"link with errors":       {[]string{"pcieport 0000:40:01.1: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)"}, 1, "exit-status", verdict.Task},
		"slot, by a signal":      {[]string{"pcieport 0000:40:01.1: pciehp: Slot(0): Link Down"}, 139, "gpu-lost", verdict.GPU},
		"slot, by a failure":     {[]string{"pciehp 0000:40:01.1:pcie004: Slot(0): Card not present"}, 1, "gpu-lost", verdict.GPU},
		"off the bus in a reset": {[]string{on + "GPU reset begin!. Source:  1", on + "device lost from bus!", on + "GPU reset end with ret = -19"}, 134, "gpu-lost", verdict.GPU},
		"another slot":           {[]string{"pcieport 0000:20:01.1: pciehp: Slot(0): Link Down"}, 1, "exit-status", verdict.Task},
	} {
		w := signsWorld(t)
		one := w.task(handle, gpu1)
		w.run(20 * time.Second)
		w.sayAll(c.lines...)
		fails(time.Second, c.exit)(w, one)
		w.run(14 * time.Second)
		_, v := w.verdict(handle)
		require.Equal(t, c.code, v.Reasons[0].Code, "%s: %+v", name, v)
		require.Equal(t, c.kind, v.Kind, name)
	}
}

// A container has the log of its host, and not all cards of it.
func TestLineWithoutAnAddressIsOfTheOnlyCardOfTheHost(t *testing.T) {
	for others, code := range map[bool]string{false: "gpu-hang", true: "exit-status"} {
		w := signsWorld(t)
		for _, node := range []string{"renderD128", "renderD130", "renderD131"} {
			require.NoError(t, w.root.Remove("/dev/dri/"+node))
		}
		for _, card := range []string{gpu0, "0000:83:00.0", "0000:c3:00.0"} {
			if !others {
				require.NoError(t, w.root.Remove("/sys/bus/pci/drivers/amdgpu/"+card))
			}
		}
		w.restart()
		one := w.task(handle, gpu1)
		w.run(20 * time.Second)
		w.say("amdgpu: qcm fence wait loop timeout expired")
		fails(time.Second, 1)(w, one)
		w.run(14 * time.Second)
		_, v := w.verdict(handle)
		require.Equal(t, code, v.Reasons[0].Code, "%+v", v)
	}
}

// The driver gives up the queues of a killed program after its end.
func TestSignAfterTheEndIsOfTheLastTask(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		exit  int
		again bool // another task has the GPU then
		hang  bool
	}{
		"at once":              {3 * time.Second, killed, false, true},
		"later":                {90 * time.Second, killed, false, true},
		"much later":           {6 * time.Minute, killed, false, false},
		"of a failed task":     {90 * time.Second, 1, false, false},
		"with another task":    {90 * time.Second, killed, true, false},
		"removed by Concourse": {90 * time.Second, -1, false, true},
	} {
		w := signsWorld(t)
		one := w.task(handle, gpu1)
		if c.exit < 0 {
			w.run(20 * time.Second)
			one.removed()
		} else {
			fails(20*time.Second, c.exit)(w, one)
		}
		w.run(2 * time.Second)
		if c.again {
			w.task(neighbour, gpu1)
		}
		if c.after > time.Minute {
			w.run(14 * time.Second)
			w.now = w.now.Add(c.after - 16*time.Second)
		}
		w.sayAll(mes...)
		w.run(14 * time.Second)
		r, v := w.verdict(handle)
		require.Equal(t, c.hang, v.Reasons[0].Code == "gpu-hang", "%s: %+v", name, v)
		if c.hang {
			require.Len(t, r.End.Kernel, len(mes), name)
			report, err := verdict.ReportFile(verdict.ReportPath).Read(w.root)
			require.NoError(t, err)
			require.Len(t, report.Entries, 1)
			require.Equal(t, verdict.GPU, report.Entries[0].Kind, name)
		}
	}
}

func TestRingResetIsOfTheTaskThatItNames(t *testing.T) {
	for name, c := range map[string]struct {
		process   string // named by the driver
		own, next string
	}{
		"the task":          {"own", "gpu-hang", "exit-status"},
		"the neighbour":     {"next", "exit-status", "gpu-hang"},
		"neither":           {"4242", "exit-status", "exit-status"},
		"a lost process":    {"4243", "gpu-hang", "gpu-hang"},
		"a line without it": {"", "gpu-hang", "gpu-hang"},
	} {
		w := signsWorld(t)
		own, next := w.task(handle, gpu1), w.task(neighbour, gpu1)
		w.run(20 * time.Second)
		w.say(on + "ring comp_1.0.0 timeout, signaled seq=11, emitted seq=12")
		switch c.process {
		case "own":
			w.say(fmt.Sprintf(on+" Process python3 pid %d thread python3 pid %[1]d", own.own))
		case "next":
			w.say(fmt.Sprintf(on+"Process information: process x pid %d thread x pid %[1]d", next.own))
		case "4242":
			w.process(4242)
			w.say(on + " Process desktop pid 4242 thread desktop pid 4242")
		case "4243":
			w.say(on + " Process desktop pid 4243 thread desktop pid 4243")
		}
		w.sayAll(on+"Starting comp_1.0.0 ring reset", on+"Ring comp_1.0.0 reset succeeded")
		w.dump("devcd1", gpu1) // the driver writes it at the timeout
		w.run(2 * time.Second)
		own.ends(1)
		next.ends(1)
		w.run(14 * time.Second)
		_, v := w.verdict(handle)
		require.Equal(t, c.own, v.Reasons[0].Code, "%s: %+v", name, v)
		_, v = w.verdict(neighbour)
		require.Equal(t, c.next, v.Reasons[0].Code, "%s: %+v", name, v)
	}
}

// A card can leave the bus without a line that is read.
func TestGPUThatIsGoneAtTheEndIsLost(t *testing.T) {
	w := signsWorld(t)
	one := w.task(handle, gpu1)
	w.run(20 * time.Second)
	require.NoError(t, os.RemoveAll(w.root.Path(device(gpu1, ""))))
	fails(time.Second, 139)(w, one)
	w.run(14 * time.Second)
	_, v := w.verdict(handle)
	require.Equal(t, "gpu-lost", v.Reasons[0].Code, "%+v", v)
	require.Contains(t, v.Reasons[0].Text, "left the bus at 12:00:2")
}

func TestRepeatedSignsLeaveRoomForOthers(t *testing.T) {
	w := signsWorld(t)
	one := w.task(handle, gpu1)
	for range 100 {
		w.sayAll(on+"ring gfx timeout, signaled seq=1", on+"Ring gfx reset succeeded")
	}
	w.run(2 * time.Second)
	w.say("pcieport 0000:40:01.1: pciehp: Slot(0): Link Down")
	fails(time.Second, 1)(w, one)
	w.run(14 * time.Second)
	r, v := w.verdict(handle)
	require.Equal(t, "gpu-lost", v.Reasons[0].Code, "%+v", v)
	count := map[taskrecord.EventKind]int{}
	for _, e := range r.Events {
		count[e.Kind]++
	}
	require.Equal(t, 20, count[taskrecord.RingReset])
}
