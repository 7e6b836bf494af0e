//go:build e2e

package concourse

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// onGPU runs on one GPU for longer than it takes to see that it is sick. What a sick GPU does
// to a task a file in the unit's folder does: it fails in the end.
const onGPU = `
jobs:
- name: one
  plan:
  - task: t
    tags: [gpu]
    config:
      platform: linux
      image_resource: {type: mock, source: {mirror_self: true}, version: {version: mock}}
      run:
        path: sh
        args:
        - -c
        - |
          gpu=$(ls /dev/dri | grep renderD)
          id=$(cat /proc/sys/kernel/random/uuid)
          echo "$(date +%s) $gpu" >/srv/out_rw/begun-$id
          touch /srv/out_rw/running-$gpu
          met=0
          for i in $(seq 24); do
            sleep 1
            if [ -e /srv/out_rw/sick-$gpu ]; then met=134; fi
          done
          rm -f /srv/out_rw/running-$gpu
          exit $met
`

const (
	sickGPU  = "0000:43:00.0" // the second of the fixture mi210x4, renderD129
	sickNode = "renderD129"
	noticed  = 20 * time.Second
)

type buildOf struct {
	ID     int
	Name   string
	Status string
}

// builds are a job's, the newest first.
func (s *story) builds(job string) (list []buildOf) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal([]byte(s.fly.must("builds", "-j", job, "-c", "200", "--json")), &list))
	return list
}

// counted writes how many uncorrectable errors the driver counted.
func counted(u *unit, gpu string, n int) {
	u.t.Helper()
	dirs, err := u.fake().Glob("/sys/devices/*/*/" + gpu + "/ras")
	require.NoError(u.t, err)
	require.Len(u.t, dirs, 1)
	// In place: the machine sees the file through an overlay.
	f, err := os.OpenFile(u.fake().Path(dirs[0]+"/umc_err_count"), os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(u.t, err)
	_, err = fmt.Fprintf(f, "ue: %d\nce: 0\n", n)
	require.NoError(u.t, err)
	require.NoError(u.t, f.Close())
}

func (u *unit) service(gpu string) quarantine.State {
	u.t.Helper()
	r, err := quarantine.RecordFile.Read(u.Root)
	require.NoError(u.t, err)
	g := r.Find(gpu)
	if g == nil {
		return ""
	}
	return g.State
}

// within is until for what takes its minutes.
func within(t *testing.T, d time.Duration, is func() bool, why string) time.Duration {
	t.Helper()
	begin := time.Now()
	for !is() {
		require.Less(t, time.Since(begin), d, why)
		time.Sleep(200 * time.Millisecond)
	}
	return time.Since(begin)
}

// The promise of docs/explanation/gpu-health.md, with a real Concourse: two workers of two
// GPUs each, 40 builds of one GPU each, and one GPU that falls sick under one of them.
func TestSickGPUFailsNoSecondBuild(t *testing.T) {
	tgz := releaseTarball(t)
	s := &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir()}
	s.app = newApp(t, tgz, map[string]any{"mode": "auto", "compute-runtime": "auto", "amd-container-toolkit": "skip", "gpu-device-ids": "0,1",
		"gpu-sharing": "exclusive", "enable-metrics": true}, "no-gpu", "mi210x4", "mi210x4")
	for _, u := range s.app.units {
		require.NoError(t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
		require.NoError(t, u.Root.MkdirAll("/srv/out_rw", 0o755))
		require.NoError(t, os.Chmod(u.Root.Path("/srv/out_rw"), 0o777))
	}
	workers := s.app.units[1:]
	for _, u := range workers { // the fixture's fourth is sick from the start
		counted(u, "0000:c3:00.0", 0)
	}
	s.app.begin()
	s.app.relate(s.pg)
	s.app.relation(s.web(), "postgresql", "changed", "postgresql/0")
	s.registers()
	s.logsIn()
	sick := workers[0]
	within(t, time.Minute, func() bool { return sick.service(sickGPU) == quarantine.InService }, "the GPUs are not watched")
	count := func(u *unit) string {
		for _, w := range s.workers() {
			for _, tag := range w.Tags {
				if n, is := strings.CutPrefix(tag, "gpu-count="); is && w.Name == s.nameOf(u) {
					return n
				}
			}
		}
		return "none"
	}
	require.Equal(t, "2", count(sick))
	process := sick.show("concourse-worker", "InvocationID")

	const builds = 40
	s.fly.must("set-pipeline", "-n", "-p", "gpus", "-c", s.fly.write("gpus.yml", onGPU))
	s.fly.must("unpause-pipeline", "-p", "gpus")
	for range builds {
		s.fly.must("trigger-job", "-j", "gpus/one")
	}
	began := time.Now()
	within(t, 3*time.Minute, func() bool { return sick.Root.Exists("/srv/out_rw/running-" + sickNode) }, "no build runs on the GPU")
	require.NoError(t, sick.Root.WriteFile("/srv/out_rw/sick-"+sickNode, nil, 0o644))
	counted(sick, sickGPU, 1)
	sign := time.Now()
	took := within(t, time.Minute, func() bool { return sick.service(sickGPU) == quarantine.Quarantined }, "it is not quarantined")
	t.Logf("%.1f s from the sign to quarantined", took.Seconds())
	require.LessOrEqual(t, took, noticed)
	// A hook while Concourse makes the volumes of builds: the status reports, and no tag
	// follows.
	s.app.hook(sick, "update-status")
	require.Contains(t, sick.status(), "1 quarantined")
	within(t, time.Minute, func() bool { return !sick.Root.Exists("/srv/out_rw/running-" + sickNode) }, "the build on it does not end")
	require.NoError(t, os.Remove(sick.Root.Path("/srv/out_rw/sick-"+sickNode)))

	within(t, 15*time.Minute, func() bool {
		for _, b := range s.builds("gpus/one") {
			if b.Status == "pending" || b.Status == "started" {
				return false
			}
		}
		return true
	}, "the builds come to no end")
	var bad []buildOf
	for _, b := range s.builds("gpus/one") {
		if b.Status != "succeeded" {
			bad = append(bad, b)
		}
	}
	t.Logf("%d builds in %.0f s; not succeeded: %v", len(s.builds("gpus/one")), time.Since(began).Seconds(), bad)
	require.Len(t, s.builds("gpus/one"), builds)
	require.Len(t, bad, 1, "the one that was on the GPU")
	require.Equal(t, "failed", bad[0].Status)
	onSick := 0
	files, err := sick.Root.Glob("/srv/out_rw/begun-*")
	require.NoError(t, err)
	for _, file := range files {
		var at int64
		var node string
		text, err := sick.Root.ReadText(file)
		require.NoError(t, err)
		_, err = fmt.Sscan(text, &at, &node)
		require.NoError(t, err)
		if node == sickNode && time.Unix(at, 0).After(sign.Add(noticed)) {
			onSick++
		}
	}
	require.Zero(t, onSick, "builds began on it later than %s after the sign", noticed)
	require.Contains(t, sick.must("/usr/bin/env CHARM_ROOT= "+charmDir()+"/dispatch gpu evidence"), "verdict: infrastructure")

	counted(sick, sickGPU, 0)
	back := within(t, 8*time.Minute, func() bool { return sick.service(sickGPU) == quarantine.InService }, "it does not come back")
	t.Logf("%.0f s from well to in service, without a person", back.Seconds())
	s.app.hook(sick, "update-status")
	require.Equal(t, "2", count(sick))
	require.Equal(t, process, sick.show("concourse-worker", "InvocationID"), "it was not restarted")

	// With none left the tags go at the next hook.
	for _, gpu := range []string{"0", "1"} {
		sick.must("/usr/bin/env CHARM_ROOT= " + charmDir() + "/dispatch gpu quarantine " + gpu + " the riser is swapped")
	}
	s.app.hook(sick, "update-status")
	until(t, func() bool { return count(sick) == "0" }, "gpu-count follows")
}
