//go:build e2e

package concourse

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
	"github.com/fourdollars/concourse-ci-machine/tests/fusefs"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

const (
	hangingGPU  = "0000:23:00.0" // the first of the fixture mi210x4, renderD128
	hangingNode = "renderD128"
)

// hanging puts the first GPU's files on a file system that can hang or fail.
func hanging(u *unit) *fusefs.Mirror {
	u.t.Helper()
	return mirrorGPU(u, hangingGPU)
}

// mirrorGPU puts a GPU's files on a file system of their own.
func mirrorGPU(u *unit, gpu string) *fusefs.Mirror {
	u.t.Helper()
	dirs, err := u.fake().Glob("/sys/devices/*/*/" + gpu)
	require.NoError(u.t, err)
	require.Len(u.t, dirs, 1)
	// A copy: what is mounted in an overlay's lower folder doesn't show.
	at := filepath.Join(u.Dir, "mirrored-"+gpu)
	require.NoError(u.t, os.CopyFS(at, os.DirFS(u.fake().Path(dirs[0]))))
	m := fusefs.New(u.t, at)
	u.mount(at, filepath.Join(u.Dir, "fake", "over", strings.TrimPrefix(dirs[0], "/sys/")), "", unix.MS_BIND, "")
	return m
}

// onNode begins a build that has the GPU of a node, and runs until its end is written.
func (s *story) onNode(u *unit, node string) *oneBuild {
	s.t.Helper()
	var other *oneBuild
	for range guest.GPUs {
		name := fmt.Sprintf("held-%d", time.Now().UnixNano())
		b := s.begins(name, fmt.Sprintf("ls /dev/dri >/srv/out_rw/%s.new; mv /srv/out_rw/%[1]s.new /srv/out_rw/%[1]s; "+
			"while [ ! -e /srv/out_rw/end-%[1]s ]; do sleep 1; done; echo %[1]s has ended", name))
		require.Equal(s.t, u.Model.Unit, s.on(b).Model.Unit)
		if other != nil {
			s.finish(u, other)
		}
		if strings.Contains(read(u, "/srv/out_rw/"+name), node) {
			return b
		}
		other = b
	}
	require.Fail(s.t, "no build has "+node)
	return nil
}

// finish lets a build end, which must succeed.
func (s *story) finish(u *unit, b *oneBuild) {
	s.t.Helper()
	require.NoError(s.t, u.Root.WriteFile("/srv/out_rw/end-"+b.name, nil, 0o644))
	until(s.t, b.ended, b.name+" does not end")
	require.NoError(s.t, b.err, b.out)
	require.Contains(s.t, b.out, "\n"+b.name+" has ended")
}

// The promise of docs/explanation/gpu-health.md for a GPU with files that hang, or fail but
// for one: no further build gets it, none errors, its build is reported, and hooks end.
func TestGPUWithFilesThatHangOrFailErrorsNoBuild(t *testing.T) {
	tgz := releaseTarball(t)
	suite.Need(t, fusefs.Missing())
	s := &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir(), tags: []string{"gpu"},
		app: &app{t: t}}
	var gpu *fusefs.Mirror
	options := map[string]any{"mode": "auto", "compute-runtime": "auto", "amd-container-toolkit": "skip",
		"gpu-device-ids": "0,1", "gpu-sharing": "exclusive", "enable-metrics": true}
	s.app.add(newUnit(t, 0, "no-gpu", tgz, false), options)
	u := newUnit(t, 1, "mi210x4", tgz, false, func(u *unit) { gpu = hanging(u) })
	s.app.add(u, options)
	t.Cleanup(func() { gpu.Hang(false) }) // or the machine's processes can't end
	for _, u := range s.app.units {
		require.NoError(t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
		require.NoError(t, u.Root.MkdirAll("/srv/out_rw", 0o755))
		require.NoError(t, os.Chmod(u.Root.Path("/srv/out_rw"), 0o777))
	}
	counted(u, "0000:c3:00.0", 0) // the fixture's fourth is sick from the start
	s.app.begin()
	s.app.relate(s.pg)
	s.app.relation(s.web(), "postgresql", "changed", "postgresql/0")
	s.registers()
	s.logsIn()

	fails := map[string]syscall.Errno{} // all but ras/umc_err_count
	for _, name := range []string{"gpu_metrics", "gpu_busy_percent", "mem_busy_percent", "mem_info_vram_used", "mem_info_vram_total",
		"mem_info_gtt_used", "mem_info_gtt_total", "pcie_bw", "pcie_replay_count", "temp1_input", "temp2_input", "temp3_input",
		"power1_input", "power1_average", "in0_input", "freq1_input", "freq2_input", "gfx_err_count", "sdma_err_count",
		"mmhub_err_count", "pcie_bif_err_count", "xgmi_wafl_err_count", "gpu_vram_bad_pages"} {
		fails[name] = syscall.EIO
	}
	for _, c := range []struct {
		name, told string
		falls      func()
		rises      func()
	}{
		{"hangs", "hangs or is in reset (timeout)", func() { gpu.Hang(true) }, func() { gpu.Hang(false) }},
		{"fails", "does not answer (", func() { gpu.Fail(fails) }, func() { gpu.Fail(nil) }},
	} {
		within(t, 2*time.Minute, func() bool {
			return u.service(hangingGPU) == quarantine.InService && u.service(sickGPU) == quarantine.InService
		},
			"the GPUs are not in service: "+c.name)
		on := s.onNode(u, hangingNode)
		begin := time.Now()
		c.falls()
		within(t, patience, func() bool { return u.service(hangingGPU) == quarantine.Quarantined },
			"it is not quarantined: "+c.name)
		s.since(begin, c.name+": quarantined")
		until(t, func() bool {
			require.False(t, on.ended(), on.out)
			said, err := os.ReadFile(on.log)
			require.NoError(t, err)
			return strings.Contains(string(said), "\nconcourse-ci-machine: GPU 0: "+c.told)
		}, "its build is not told: "+c.name)
		s.since(begin, c.name+": the build is told")
		require.Equal(t, quarantine.InService, u.service(sickGPU))

		hook := time.Now()
		s.app.hook(u, "update-status")
		s.since(hook, c.name+": update-status: "+u.status())
		require.Contains(t, u.status(), "(GPU: 2x AMD, 1 quarantined: ")
		var further []*oneBuild
		for n := range 3 {
			further = append(further, s.begins(fmt.Sprintf("%s-%d", c.name, n), lingers+"; ls /dev/dri"))
		}
		for _, b := range further {
			until(t, b.ended, b.name+" does not end")
			require.NoError(t, b.err, b.out)
			require.Contains(t, b.out, sickNode)
			require.NotContains(t, b.out, hangingNode)
		}
		require.Equal(t, quarantine.Quarantined, u.service(hangingGPU))

		c.rises()
		s.finish(u, on)
		until(t, func() bool { return !strings.Contains(u.leases(), "by the ") }, "a GPU stays held")
		u.action("return-gpu", map[string]any{"gpu": "0"})
		within(t, patience, func() bool { return u.service(hangingGPU) == quarantine.InService },
			"it does not come back: "+c.name)
	}
}
