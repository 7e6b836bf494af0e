package watcher

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/pool/clockpin"
	"concourse-ci-machine/internal/pool/lease"
	"concourse-ci-machine/internal/pool/quarantine"
	"concourse-ci-machine/internal/testutil/hosttest"
)

const engineID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// kindsUnit has a GPU with a container of Docker's, one with a pod, one with a task that
// measures, and one with a pod that is to come.
func kindsUnit(t *testing.T) *Unit {
	t.Helper()
	u := leaseUnit(t, leasing())
	runs(t, u.Host.Root, "4711")
	l, _, _, err := u.leased()
	require.NoError(t, err)
	_, err = l.Take(lease.Call{Container: engineID, Bundle: "/run/containerd/io.containerd.runtime.v2.task/moby/" + engineID, PidFile: "/run/none", Cgroup: engineID, OwnProcess: true, PID: 4711},
		lease.Want{Of: []int{0}, Count: 1})
	require.NoError(t, err)
	require.NoError(t, l.HoldForPod("team-a/train-0/main", []int{1}, nil))
	taken(t, u, "4f1c", 4711, time.Minute, lease.Want{Of: []int{2}, Count: 1})
	require.NoError(t, l.HoldForPod(lease.StartingPod, []int{3}, nil))
	hosttest.Put(t, u.Host.Root, clockpin.DefaultDir+"/"+leasedName(t, u, 2), `{"container":"4f1c","bundle":"/run/b","boot":"5f0c-boot","level":"profile_standard","since":1767322920000}`)
	hosttest.Put(t, u.Host.Root, clockpin.DefaultDir+"/"+leasedName(t, u, 3), `{"container":"old","bundle":"/run/b","boot":"another","level":"profile_standard","since":1767322920000}`)
	return u
}

func TestGPUStatusTellsOfWhichKindAHolderIs(t *testing.T) {
	u := kindsUnit(t)
	hosttest.Golden(t, "testdata/lease-kinds.golden", gpuStatus(t, u, term.Format{}))
	var report monitor.LeaseReport
	require.NoError(t, json.Unmarshal([]byte(gpuStatus(t, u, term.Format{JSON: true})), &report))
	for i := range report.GPUs {
		g := &report.GPUs[i]
		g.Name, g.Index, g.PCI, g.Since = "", nil, "", nil
	}
	require.Equal(t, []monitor.LeasedGPU{
		{Held: true, Kind: lease.Container, Container: "0123456789ab", Engine: "docker"},
		{Held: true, Kind: lease.Pod, Container: "main", Namespace: "team-a", Pod: "train-0"},
		{Held: true, Kind: lease.Task, Container: "4f1c", Clocks: &monitor.Clocks{Level: "profile_standard", Container: "4f1c", Since: time.UnixMilli(1767322920000).UTC()}},
		{Held: true, Kind: lease.Pod, Container: lease.StartingPod},
	}, report.GPUs)
}

func TestGPUReleaseNamesHowAHolderIsEnded(t *testing.T) {
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

// A container of another engine has no output of ours, and its verdict nobody who reads it.
func TestOthersThanTasksAreNotJudgedAsTasks(t *testing.T) {
	u := kindsUnit(t)
	users, err := u.users(nil)
	require.NoError(t, err)
	var l quarantine.Look
	u.addTasks(&l)
	require.Len(t, l.Tasks, 1)
	require.Equal(t, "4f1c", l.Tasks[0].Container)
	for i, want := range [][]string{nil, nil, {"4f1c"}, nil} {
		require.Equal(t, want, users[leasedName(t, u, i)])
	}
}

func TestClocksThatCantBeReadAreTold(t *testing.T) {
	u := kindsUnit(t)
	hosttest.Put(t, u.Host.Root, clockpin.DefaultDir+"/"+leasedName(t, u, 2), "{")
	require.Contains(t, gpuStatus(t, u, term.Format{}), "      nothing is known of its clocks: it ends too early")
}
