package recorder

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/kernellog"
)

const ownHandle, otherHandle = "0badcafe-0000-4000-8000-000000000001", "0badcafe-0000-4000-8000-000000000002"

// FuzzDump tries heads of dumps.
func FuzzDump(f *testing.F) {
	f.Add([]byte("**** AMDGPU Device Coredump ****\nversion: 1\nmodule: amdgpu\ntime: 45.084775181\n"))
	f.Add([]byte("time: -1\n"))
	f.Add([]byte("time: 9e99\ntime: 1"))
	f.Fuzz(func(t *testing.T, head []byte) {
		d, ok := dumpUptime(head)
		require.False(t, ok && d < 0)
	})
}

// FuzzNameServers tries texts of a container's resolv.conf.
func FuzzNameServers(f *testing.F) {
	f.Add("search x\nnameserver 10.0.0.1 # a\nnameserver fe80::1%eth0\nnameserver\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range nameServers(text) {
			require.Contains(t, []int{8, 32}, len(s))
		}
	})
}

// FuzzKernelLine tries names of processes, which tasks choose, and whole lines.
func FuzzKernelLine(f *testing.F) {
	f.Add("python3", "amdgpu: ring gfx timeout, signaled seq=1, emitted seq=2")
	f.Add("x[9]: segfault", "traps: a[1][7]: segfault at 0 ip 0 sp 0 error 4 in b[1000+1000]")
	f.Add("a,task_memcg=/b", "oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/,task=")
	f.Add(") pid 1 (", "Out of memory: Killed process 12 (x) total-vm:1kB")
	f.Fuzz(func(t *testing.T, name, line string) {
		for _, device := range []string{"", "0000:03:00.0"} {
			require.GreaterOrEqual(t, parse(kernellog.Message{Device: device, Text: line}).pid, 0)
		}
		name = name[:min(len(name), 15)] // TASK_COMM_LEN without its end
		c := &container{holder: holder{handle: ownHandle}, pids: map[int]time.Time{7: time.Unix(1, 0)}}
		other := &container{holder: holder{handle: otherHandle}, pids: map[int]time.Time{9: time.Unix(1, 0)}}
		r := &Recorder{containers: map[string]*container{ownHandle: c, otherHandle: other}}
		if name == "" || strings.ContainsAny(name, "\n\x00") || !isText(name) {
			return // the kernel escapes these
		}
		for text, kind := range map[string]taskrecord.EventKind{
			name + "[7]: segfault at 0 ip 00 sp 00 error 4 in b[1000+1000]":         taskrecord.Crash,
			"traps: " + name + "[7] general protection fault ip:0 sp:0 error:0":     taskrecord.Crash,
			"Memory cgroup out of memory: Killed process 7 (" + name + ") total-vm": "",
			"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/garden/" + ownHandle +
				",task_memcg=/garden/" + ownHandle + ",task=" + name + ",pid=7,uid=0": taskrecord.OOMKill,
		} {
			found := parse(kernellog.Message{Text: text})
			require.Equal(t, kind, found.kind, text)
			require.True(t, found.of(c, r.owner(found.pid)), text)
			require.False(t, found.of(other, r.owner(found.pid)), text)
		}
	})
}

// isText reports whether the kernel's log shows a name as it is.
func isText(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '\\' })
}

// FuzzTexts tries the files of the kernel that the recorder reads.
func FuzzTexts(f *testing.F) {
	f.Add("0::/garden/" + ownHandle + "\n3:cpu,cpuacct:/garden/" + ownHandle + "/x\n")
	f.Add("36 35 98:0 / /tmp/build/0badcafe rw - ext4 x rw\n37 35 0:5 / /dev/dri/renderD128 rw - devtmpfs x rw\n")
	f.Add("Inter-|\n face |\n    lo: 1 1 1 1 1 1 1 1 1 1 1 1\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12\n")
	f.Add("Tcp: A RetransSegs\nTcp: 1 5\nsome avg10=0.00 total=5\n8:0 rbytes=1 wbytes=2\n8:0 Read 4096\n")
	f.Add("  0: 0100007F:0016 0100007F:08AE 01 0\ncpu  1 2 3 4 5 6 7 8 9\nMemTotal: 12 kB\nanon 5\n")
	r := &Recorder{Options: Options{Root: host.Root(f.TempDir())}}
	f.Fuzz(func(t *testing.T, text string) {
		data := []byte(text)
		g, ok := r.groupOf(text, holder{handle: ownHandle}.inGroup)
		require.True(t, ok || len(g.dirs) == 0)
		_, nodes := readMounts(text)
		for node := range nodes {
			require.True(t, strings.HasPrefix(node, "/dev/dri/renderD"))
		}
		devices(data)
		snmp(data, "Tcp:", "RetransSegs")
		require.GreaterOrEqual(t, sockets(data, 2222, "01", elsewhere), int64(0))
		busy(data)
		kilobytes(data, "MemTotal:")
		keyed(data, "anon")
		stall(data, "some")
		sumOf(data, "rbytes=")
		sumAfter(data, "Read")
		_, err := dockerExit(data)
		require.False(t, err == nil && !strings.Contains(text, "{"), text)
		pages, ticks := usageOf(text)
		require.False(t, !strings.ContainsAny(text, "123456789") && pages|ticks != 0, text)
	})
}
