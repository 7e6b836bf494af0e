package kernellog

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// records gives one at each Read, as the kernel does.
type records []string

func (r *records) Read(data []byte) (int, error) {
	if len(*r) == 0 {
		return 0, io.EOF
	}
	n := copy(data, (*r)[0])
	*r = (*r)[1:]
	return n, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("no") }

var boot = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func lines(t *testing.T, log ...string) []string {
	t.Helper()
	l := records(log)
	got, err := read(&l, boot, boot.Add(10*time.Second), boot.Add(20*time.Second), []string{"0000:03:00.0", "0000:43:00.0"})
	require.NoError(t, err)
	return got
}

func TestLinesOfTheDevicesInTheirTime(t *testing.T) {
	require.Equal(t, []string{
		"12:00:10.000 amdgpu 0000:03:00.0: amdgpu: ring gfx timeout, signaled seq=17",
		"12:00:19.500 amdgpu 0000:43:00.0: amdgpu: GPU reset begin!?[2J",
	}, lines(t,
		"4,1,9999999,-;amdgpu 0000:03:00.0: too early",
		"4,2,10000000,-;amdgpu 0000:03:00.0: amdgpu: ring gfx timeout, signaled seq=17\n SUBSYSTEM=pci\n",
		"4,3,11000000,-;amdgpu 0000:83:00.0: another's",
		"12,4,12000000,-;amdgpu 0000:03:00.0: a process says so",
		"4,5,13000000;no flags: 0000:99:00.0",
		"6,6,19500000,c;amdgpu 0000:43:00.0: amdgpu: GPU reset begin!\x1b[2J\n",
		"4,7,20000001,-;amdgpu 0000:03:00.0: too late"))
	require.Empty(t, lines(t, "", ";", "4,1", "4,x,1;0000:03:00.0", "4,1,-1,-;0000:03:00.0", "4,1,99999999999999999999,-;0000:03:00.0"))
}

// A task chooses the names of its processes, and how often they fail.
func TestTaskCannotForgeALine(t *testing.T) {
	require.Equal(t, []string{"12:00:12.000 pci 0000:03:00.0: BAR 0: no space"}, lines(t,
		"6,1,11000000,-;0000:03:00.0[712]: segfault at 0 ip 0000 sp 0000 error 4 in sh",
		"6,2,11000000,-;traps: 0000:03:00.0[712] trap invalid opcode",
		"4,3,11000000,-;0000:03:00.0: page allocation failure: order:0",
		"4,4,11000000,-;a 0000:03:00.0: page allocation failure: order:0",
		"4,5,11000000,-;aa 0000:03:00.0: page allocation failure: order:0",
		"4,6,11000000,-;amdgpu 0000:83:00.0: amdgpu: Process amdgpu 0000:03:00.0: pid 7",
		"6,6,11000000,-;traps: 0000:03:00.0: x[712] trap invalid opcode ip:40 sp:7f error:0 in x[40+1]",
		`6,6,11000000,-;traps: 0000:03:00.0: \x5c[712] trap invalid opcode ip:40 sp:7f error:0 in GPU reset begin![40+1]`,
		"4,6,11000000,-;umip: 0000:03:00.0: x[712] ip:40 sp:7f: SGDT instruction cannot be used by applications.",
		"4,7,12000000,-;pci 0000:03:00.0: BAR 0: no space"))
}

func TestMessageInATasksNameHasNoDevice(t *testing.T) {
	log := Of(&records{"6,1,1,-;traps: 0000:03:00.0: x[712] trap invalid opcode ip:40 sp:7f error:0 in x[40+1]",
		"4,2,2,-;amdgpu 0000:03:00.0: amdgpu: GPU reset begin!"}, boot)
	for _, device := range []string{"", "0000:03:00.0"} {
		m, ok := log.Next()
		require.True(t, ok)
		require.Equal(t, device, m.Device)
	}
}

func TestFrequentLinesDoNotDisplaceOthers(t *testing.T) {
	log := []string{"4,1,10000001,-;amdgpu 0000:03:00.0: amdgpu: ring gfx timeout, signaled seq=17",
		"4,2,10000002,-;amdgpu 0000:43:00.0: amdgpu: GPU reset begin!"}
	for i := range 1000 {
		log = append(log, fmt.Sprintf("4,%d,11000000,-;amdgpu 0000:03:00.0: amdgpu: Process %c%d pid %d", i, 'a'+rune(i%26), i, i))
	}
	got := lines(t, log...)
	require.Len(t, got, maxLines)
	require.Contains(t, got[0], "ring gfx timeout")
	require.Contains(t, got[1], "GPU reset begin")
	require.Contains(t, got[maxLines-1], "pid 999")
	require.Contains(t, got[2], fmt.Sprintf("pid %d", 1000-maxLines+2))
}

func TestLinesAreBounded(t *testing.T) {
	var log []string
	for i := range 100 {
		log = append(log, fmt.Sprintf("4,%d,15000000,-;amdgpu 0000:03:00.0: %d %s", i, i, strings.Repeat("x", 1000)))
	}
	got := lines(t, log...)
	require.Len(t, got, maxLines)
	require.Contains(t, got[maxLines-1], "0000:03:00.0: 99 ", "the last ones")
	require.Len(t, []rune(got[0]), len("12:00:15.000 ")+maxLine+len("..."))
	_, err := read(broken{}, boot, boot, boot, nil)
	require.EqualError(t, err, "cannot read /dev/kmsg: no")
}

// The kernel's own log, if the test may read it.
func TestReadingTheRealLogEnds(t *testing.T) {
	got, err := Lines(time.Unix(0, 0), time.Now().Add(time.Hour), []string{"0000:00:00.0", "0000:03:00.0"})
	if err != nil {
		t.Skip("skipped:", err)
	}
	require.LessOrEqual(t, len(got), maxLines)
}

func FuzzRecord(f *testing.F) {
	f.Add("4,812,93847562,-;amdgpu 0000:03:00.0: x\n K=V\n")
	f.Fuzz(func(t *testing.T, record string) {
		after, text, ok := parse(record)
		if ok {
			require.GreaterOrEqual(t, after, time.Duration(0))
			require.NotContains(t, text, "\n")
		}
		for _, line := range lines(t, record) {
			require.NotContains(t, line, "\x1b")
		}
	})
}
