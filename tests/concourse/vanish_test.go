//go:build e2e

package concourse

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// ended returns how many builds of the job have ended.
func (s *story) ended(job string) (n int) {
	s.t.Helper()
	for _, b := range s.builds(job) {
		if b.Status != "pending" && b.Status != "started" {
			n++
		}
	}
	return n
}

// One of four GPUs vanishes from its machine under a build. Concourse sends tasks for it until
// a hook runs, and its web has one limit for all workers. The builds wait or run elsewhere,
// before, between and after the hooks. Only its nodes vanish, as after lxc config device
// remove: sysfs is the LXD host's.
func TestVanishedGPUErrorsNoBuild(t *testing.T) {
	tgz := releaseTarball(t)
	s := &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir()}
	s.app = newApp(t, tgz, map[string]any{"mode": "auto", "compute-runtime": "auto", "amd-container-toolkit": "skip", "gpu-device-ids": "0,1",
		"gpu-sharing": "exclusive"}, "no-gpu", "mi210x4", "mi210x4")
	for _, u := range s.app.units {
		require.NoError(t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
		require.NoError(t, u.Root.MkdirAll("/srv/out_rw", 0o755))
		require.NoError(t, os.Chmod(u.Root.Path("/srv/out_rw"), 0o777))
	}
	workers := s.app.units[1:]
	for _, u := range workers {
		counted(u, "0000:c3:00.0", 0)
	}
	s.app.begin()
	s.app.relate(s.pg)
	s.app.relation(s.web(), "postgresql", "changed", "postgresql/0")
	s.registers()
	s.app.gossip()
	s.logsIn()
	web := s.web().show("concourse-server", "InvocationID")
	s.noLimitWarning()

	const builds, job = 40, "gpus/one"
	s.fly.must("set-pipeline", "-n", "-p", "gpus", "-c", s.fly.write("gpus.yml", onGPU))
	s.fly.must("unpause-pipeline", "-p", "gpus")
	for range builds {
		s.fly.must("trigger-job", "-j", job)
	}
	loser := workers[0]
	within(t, 3*time.Minute, func() bool { return loser.Root.Exists("/srv/out_rw/running-" + sickNode) }, "no build runs on the GPU")
	loser.must("touch /srv/out_rw/sick-" + sickNode + "; rm /dev/dri/" + sickNode + " /dev/dri/card2")

	more := func(n int, when string) {
		goal := s.ended(job) + n
		within(t, 6*time.Minute, func() bool { return s.ended(job) >= goal }, when)
		s.noneErrored(job, when)
	}
	more(6, "before a hook")
	s.app.hook(loser, "update-status")
	require.Contains(t, loser.status(), "(GPU: 1x AMD)")
	require.Contains(t, loser.status(), "; 1 GPU m") // it is cut
	require.Contains(t, loser.checks(), "1 GPU missing: 0000:43:00.0\n")
	more(6, "after the worker's hook")
	for _, u := range s.app.units {
		if u != loser {
			s.app.relation(u, "peers", "changed", loser.Model.Unit)
		}
	}
	s.noLimitWarning()
	more(6, "after the web's hook")
	s.app.gossip()
	for _, u := range s.app.units {
		s.app.hook(u, "update-status")
	}
	within(t, 15*time.Minute, func() bool { return s.ended(job) == builds }, "the builds come to no end")
	s.noneErrored(job, "after all hooks")
	failed := 0
	for _, b := range s.builds(job) {
		if b.Status == "failed" {
			failed++
		}
	}
	t.Logf("%d builds in %.0f s, %d failed", builds, time.Since(s.begun).Seconds(), failed)
	require.LessOrEqual(t, failed, 1, "the one that was on the GPU")
	require.Equal(t, web, s.web().show("concourse-server", "InvocationID"), "the web was not restarted")
}

// noLimitWarning requires that the web limits tasks to the GPUs.
func (s *story) noLimitWarning() {
	s.t.Helper()
	require.NotContains(s.t, s.web().status(), "not limited")
	require.Contains(s.t, s.web().must("cat /var/lib/concourse/config.env"), concourse.TaskLimitKey+"=2\n")
}

// noneErrored requires that Concourse could start each build.
func (s *story) noneErrored(job, when string) {
	s.t.Helper()
	for _, b := range s.builds(job) {
		if b.Status == "errored" {
			out, _ := s.fly.run("watch", "-j", job, "-b", b.Name)
			require.Fail(s.t, "build "+b.Name+" errored "+when, strings.TrimSpace(out))
		}
	}
}
