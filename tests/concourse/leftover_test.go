//go:build e2e

package concourse

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// leaves is a task of one GPU. Every fourth one leaves a process that ignores SIGTERM and runs
// for hours, as a server under test or a compiler cache does, and fails: Concourse keeps the
// containers of failed builds. The image has a version, as builds that check the same image at
// once share a container there, in which an 8.2 web may find no answer ("run check: EOF").
const leaves = `
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
          n=0; until mkdir /srv/out_rw/$n 2>/dev/null; do n=$((n + 1)); done
          ls /dev/dri/renderD*
          [ $((n % 4)) != 0 ] || {
            (setsid sh -c "trap '' TERM; sleep 4; touch /srv/out_rw/left-$n; exec sleep 6000" </dev/null >/dev/null 2>&1 &)
            sleep 2
            exit 7
          }
          sleep 2
`

// A real Concourse with two workers of two GPUs, and 40 builds: none is errored because of
// processes that other builds left behind.
func TestLeftProcessesErrorNoOtherBuild(t *testing.T) {
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
	s.app.begin()
	s.app.relate(s.pg)
	s.app.relation(s.web(), "postgresql", "changed", "postgresql/0")
	s.registers()
	s.logsIn()
	for _, u := range workers {
		within(t, 2*time.Minute, func() bool { return u.service(sickGPU) == quarantine.InService }, "the GPUs are not watched")
	}

	const builds = 40
	s.fly.must("set-pipeline", "-n", "-p", "left", "-c", s.fly.write("left.yml", leaves))
	s.fly.must("unpause-pipeline", "-p", "left")
	for range builds {
		s.fly.must("trigger-job", "-j", "left/one")
	}
	began := time.Now()
	var open []string
	defer func() { // what the builds that come to no end have printed, and what their workers run
		for _, name := range open {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			watch := s.fly.command("watch", "--timestamps", "-j", "left/one", "-b", name)
			out, _ := exec.CommandContext(ctx, "env", append([]string{"HOME=" + s.fly.home}, watch.Args...)...).Output()
			cancel()
			t.Logf("build %s has not ended: %s", name, out)
		}
		for _, u := range workers {
			if t.Failed() {
				t.Logf("%s: %s\n%s", u.Model.Unit, u.leases(), u.must("for p in /proc/[0-9]*; do echo ${p#/proc/} $(tr '\\0' ' ' <$p/cmdline); done"))
			}
		}
	}()
	within(t, 20*time.Minute, func() bool {
		open = nil
		for _, b := range s.builds("left/one") {
			if b.Status == "pending" || b.Status == "started" {
				open = append(open, b.Name)
			}
		}
		return len(open) == 0
	}, "the builds come to no end")
	count := map[string]int{}
	for _, b := range s.builds("left/one") {
		count[b.Status]++
		if b.Status == "errored" {
			out, _ := s.fly.run("watch", "-j", "left/one", "-b", b.Name) // which exits as the build did
			t.Logf("build %s errored: %s", b.Name, out)
		}
	}
	t.Logf("%d builds in %.0f s: %v", builds, time.Since(began).Seconds(), count)
	require.Zero(t, count["errored"])
	require.Equal(t, builds, count["succeeded"]+count["failed"])
	require.GreaterOrEqual(t, count["failed"], builds/4)
	within(t, 2*time.Minute, func() bool {
		left := 0
		for _, u := range workers {
			files, err := u.Root.Glob("/srv/out_rw/left-*")
			require.NoError(t, err)
			left += len(files)
		}
		return left == count["failed"]
	}, "not each left a process that outlived it")
	within(t, 2*time.Minute, func() bool {
		for _, u := range workers {
			if strings.Contains(u.leases(), "by the ") {
				return false
			}
		}
		return true
	}, "a GPU stays held")
}
