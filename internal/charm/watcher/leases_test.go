package watcher

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/admission"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// openIn makes the report one of containers that have the first GPU open.
func openIn(t *testing.T, u *Unit, containers ...string) {
	t.Helper()
	watchedBy(t, u)
	report := monitor.New(u.Host.Root, monitor.All(u.Host.Root), monitor.Options{}).Report()
	report.GPUs[0].Users = []api.User{}
	for _, c := range containers {
		report.GPUs[0].Users = append(report.GPUs[0].Users, api.User{Container: c, Processes: 1})
	}
	data, err := json.Marshal(report)
	require.NoError(t, err)
	reported(t, u, string(data))
}

// A task can pass an open node to another process, which keeps it after the lease.
func TestGPUOpenWithoutALeaseIsNotLeased(t *testing.T) {
	const holder, other = "4f1c0000-0000-4000-8000-000000000001", "4f1c0000-0000-4000-8000-000000000002"
	u := leaseUnit(t, leasing())
	runs(t, u.Host.Root, "4711")
	first := leasedName(t, u, 0)
	open := func() map[string]string {
		reasons := map[string]string{}
		f, _ := admission.Decode([]byte(quarantinedNow(t, u.Host.Root)))
		for _, g := range f.GPUs {
			if g.Reason != "" {
				reasons[g.Name] = g.Reason
			}
		}
		return reasons
	}
	want := map[string]string{first: "is open in container " + other + ", which has not leased it (fly containers shows its build)"}
	watched := func(containers ...string) {
		openIn(t, u, containers...)
		watched(t, u)
		u.after(15 * time.Second)
	}

	watched("") // no container, such as a person's tool
	require.Empty(t, open())
	watched("c0ffee123456")
	require.Empty(t, open(), "another engine's")
	taken(t, u, holder, 4711, 0, lease.Want{Count: 1, Of: []int{0}})
	watched(holder)
	require.Empty(t, open())
	watched(holder, other)
	require.Equal(t, want, open(), "before the lease ends, so that nobody gets the GPU then")
	require.NoError(t, u.Host.Remove("/proc/4711/stat"))
	watched(other)
	require.Equal(t, want, open())
	require.NoError(t, (&Unit{Host: u.Host}).changeRecord(func(r quarantine.Record) (quarantine.Record, error) { return r, nil }))
	require.Equal(t, want, open(), "a person's change leaves it")
	watched()
	require.Empty(t, open())
}

// inside adds a process of container c1 to /proc.
func inside(t *testing.T, u *Unit, pid, parent int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d", pid)
	hosttest.Put(t, u.Host.Root, dir+"/stat", fmt.Sprintf("%d (sh) S %d 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1 1 1 1\n", pid, parent))
	hosttest.Put(t, u.Host.Root, dir+"/cgroup", "0::/garden/c1\n")
	require.NoError(t, u.Host.MkdirAll(dir+"/ns", 0o755))
	require.NoError(t, os.Symlink("pid:[2]", u.Host.Path(dir+"/ns/pid")))
}

// The look ends leftovers of a task.
func TestLookEndsLeftoversOfTasks(t *testing.T) {
	u := leaseUnit(t, leasing())
	var sent []string
	u.Signal = func(p lease.Process, sig unix.Signal) error {
		sent = append(sent, fmt.Sprint(unix.SignalName(sig), " ", p.PID))
		return nil
	}
	require.NoError(t, u.Host.MkdirAll("/proc/self/ns", 0o755))
	require.NoError(t, os.Symlink("pid:[1]", u.Host.Path("/proc/self/ns/pid")))
	runs(t, u.Host.Root, "4711")
	c := lease.Call{Container: "c1", Bundle: u.Host.Path("/run/b"), PidFile: u.Host.Path("/run/b/init.pid"), Cgroup: "c1", PID: 4711}
	l, err := u.readLeases()
	require.NoError(t, err)
	gpus, err := l.Take(c, lease.Want{Count: 1})
	require.NoError(t, err)
	inside(t, u, 5000, 4711)
	hosttest.Put(t, u.Host.Root, "/run/b/init.pid", "5000")
	require.NoError(t, l.Enter(c, gpus))
	hosttest.Put(t, u.Host.Root, "/run/b/task.pid", "5001") // it no longer exists
	inside(t, u, 5002, 5000)
	require.NoError(t, u.Host.Remove("/proc/4711/stat"))

	var out bytes.Buffer
	for range 3 {
		require.NoError(t, u.ReportLeases(t.Context(), &out))
		u.after(6 * time.Second)
	}
	require.Contains(t, gpuStatus(t, u, term.Format{}), "by the ended task of container c1 since ")
	require.Equal(t, "SIGTERM 5002", sent[0])
	require.Equal(t, "SIGKILL 5002", sent[len(sent)-1])
	require.Contains(t, out.String(), "container c1: sent SIGKILL to 1 process that its task left behind, as it holds GPU ")
}

const engineID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// kindsUnit has GPUs held by a Docker container, a pod, a measuring task and an expected
// pod.
func kindsUnit(t *testing.T) *Unit {
	t.Helper()
	u := leaseUnit(t, leasing())
	runs(t, u.Host.Root, "4711")
	l, err := u.readLeases()
	require.NoError(t, err)
	_, err = l.Take(lease.Call{Container: engineID, Bundle: "/run/containerd/io.containerd.runtime.v2.task/moby/" + engineID, PidFile: "/run/none", Cgroup: engineID, OwnProcess: true, PID: 4711},
		lease.Want{Of: []int{0}, Count: 1})
	require.NoError(t, err)
	require.NoError(t, l.HoldForPod("team-a/train-0/main", []int{1}, nil))
	taken(t, u, "4f1c", 4711, time.Minute, lease.Want{Of: []int{2}, Count: 1})
	require.NoError(t, l.HoldForPod(lease.StartingPod, []int{3}, nil))
	hosttest.Put(t, u.Host.Root, fixedclocks.DefaultDir+"/"+leasedName(t, u, 2), `{"container":"4f1c","bundle":"/run/b","boot":"5f0c-boot","level":"profile_standard","since":1767322920000}`)
	hosttest.Put(t, u.Host.Root, fixedclocks.DefaultDir+"/"+leasedName(t, u, 3), `{"container":"old","bundle":"/run/b","boot":"another","level":"profile_standard","since":1767322920000}`)
	return u
}

func TestGPUStatusShowsTheKindOfTheHolder(t *testing.T) {
	u := kindsUnit(t)
	hosttest.Golden(t, "testdata/lease-kinds.golden", gpuStatus(t, u, term.Format{}))
	var report pool.Report
	require.NoError(t, json.Unmarshal([]byte(gpuStatus(t, u, term.Format{JSON: true})), &report))
	for i := range report.GPUs {
		g := &report.GPUs[i]
		g.Name, g.Index, g.PCI, g.Since = "", nil, "", nil
	}
	require.Equal(t, []pool.ReportedLease{
		{Lease: pool.Lease{Held: true, Holder: pool.Holder{Kind: lease.Container, Container: "0123456789ab"}}, Engine: "docker"},
		{Lease: pool.Lease{Held: true, Holder: pool.Holder{Kind: lease.Pod, Container: "main", Namespace: "team-a", Pod: "train-0"}}},
		{Lease: pool.Lease{Held: true, Holder: pool.Holder{Kind: lease.Task, Container: "4f1c"}}, Clocks: &pool.Clocks{Level: "profile_standard", Container: "4f1c", Since: time.UnixMilli(1767322920000).UTC()}},
		{Lease: pool.Lease{Held: true, Holder: pool.Holder{Kind: lease.Pod, Container: lease.StartingPod}}},
	}, report.GPUs)
}

func TestGPUReleaseNamesHowToEndTheHolder(t *testing.T) {
	u := kindsUnit(t)
	for which, want := range map[string]string{
		"0": "container 0123456789ab of docker holds it since 2026-01-02 03:04:05 UTC (0s); stop the container (docker ps --filter id=0123456789ab shows it); force=true",
		"1": "pod team-a/train-0, container main holds it since 2026-01-02 03:04:05 UTC (0s); delete the pod (kubectl --namespace team-a get pod train-0 shows it); force=true",
	} {
		var b bytes.Buffer
		require.ErrorContains(t, u.Release(&b, which, false), want)
		require.NoError(t, u.Release(&b, which, true))
		require.Contains(t, b.String(), "It can still open the GPU")
	}
}

// A container of another engine has no output that the charm may write to, and no verdict.
func TestOnlyTasksAreJudged(t *testing.T) {
	u := kindsUnit(t)
	address := leasedName(t, u, 2)
	seen := []quarantine.Reading{{Slot: gpu.Slot{Index: 2, PCI: address, GFX: "gfx90a"}, State: health.Healthy}}
	users, leased, err := u.users(seen, quarantine.Record{})
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"4f1c": {"GPU 2: gfx90a, " + address + ", healthy"}}, leased)
	_, leased, err = u.users(nil, quarantine.Record{})
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"4f1c": {"GPU " + address}}, leased)
	var l quarantine.Look
	u.addTasks(&l)
	require.Len(t, l.Tasks, 1)
	require.Equal(t, "4f1c", l.Tasks[0].Container)
	for i, want := range [][]string{nil, nil, {"4f1c"}, nil} {
		require.Equal(t, want, users[leasedName(t, u, i)])
	}
}

func TestUnreadableClocksAreShown(t *testing.T) {
	u := kindsUnit(t)
	hosttest.Put(t, u.Host.Root, fixedclocks.DefaultDir+"/"+leasedName(t, u, 2), "{")
	require.Contains(t, gpuStatus(t, u, term.Format{}), "      nothing is known of its clocks: it ends too early")
}
