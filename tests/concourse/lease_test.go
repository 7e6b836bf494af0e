//go:build e2e

package concourse

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/concourse"
)

// sets changes options of the application and lets all units act on them.
func (s *story) sets(options map[string]any) {
	s.t.Helper()
	for _, u := range s.app.units {
		for option, value := range options {
			require.NoError(s.t, u.Model.SetConfig(option, value))
		}
	}
	for _, u := range s.app.units {
		s.app.hook(u, "config-changed")
	}
	s.app.gossip()
	for _, u := range s.app.units {
		s.ready(u)
	}
	for _, u := range s.app.units[1:] {
		until(s.t, func() bool { return s.has(s.nameOf(u)) }, u.Model.Unit)
	}
}

// oneBuild is a task that runs until it is let go.
type oneBuild struct {
	name string
	out  string
	err  error
	done chan struct{}
}

func (s *story) starts(name string) *oneBuild {
	s.t.Helper()
	b := &oneBuild{name: name, done: make(chan struct{})}
	args := s.oneOff(name, fmt.Sprintf("echo %s >/srv/out_rw/%[1]s; while [ ! -e /srv/out_rw/end ]; do sleep 1; done; echo %[1]s has ended", name))
	go func() {
		defer close(b.done)
		b.out, b.err = s.fly.run(args...)
	}()
	return b
}

// runs reports whether the build's task has started on some worker.
func (s *story) runs(b *oneBuild) bool {
	for _, u := range s.app.units[1:] {
		if u.Root.Exists("/srv/out_rw/" + b.name) {
			return true
		}
	}
	return false
}

func (b *oneBuild) ended() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// letGo ends all tasks, and waits for the builds.
func (s *story) letGo(builds ...*oneBuild) {
	s.t.Helper()
	for _, u := range s.app.units[1:] {
		require.NoError(s.t, u.Root.WriteFile("/srv/out_rw/end", nil, 0o644))
	}
	for _, b := range builds {
		<-b.done
		require.NoError(s.t, b.err, "%s: %s", b.name, b.out)
		require.Contains(s.t, b.out, "\n"+b.name+" has ended")
	}
	for _, u := range s.app.units[1:] {
		require.NoError(s.t, u.Root.Remove("/srv/out_rw/end"))
	}
}

// leases is what the action gpu-status prints, asked on the machine itself: the
// World's dispatch sees neither its /run nor its processes.
func (u *unit) leases() string {
	u.t.Helper()
	out, err := exec.Command("nsenter", "--target", fmt.Sprint(u.machine.Process.Pid), "--mount", "--pid", "--cgroup",
		filepath.Join(charmDir(), "dispatch"), "gpu", "status").CombinedOutput()
	require.NoError(u.t, err, string(out))
	return string(out)
}

// exclusive: two workers of one GPU each. With nobody to hold tasks back a task
// too many is refused, and its build says who has the GPU; with gpu-wait it
// waits its turn; and the web's own limit lets it queue there.
func (s *story) exclusive(t *testing.T) {
	s.sets(map[string]any{"gpu-sharing": "exclusive", "limit-gpu-tasks": "off"})
	var held []*oneBuild
	refused := ""
	for n := range 3 { // where the web sends the second one is its own affair
		b := s.starts(fmt.Sprintf("refused-%d", n))
		until(t, func() bool { return s.runs(b) || b.ended() })
		if b.ended() {
			require.Error(t, b.err, b.out)
			refused = b.out
			break
		}
		held = append(held, b)
	}
	require.Contains(t, refused, "OCI runtime create failed: runc-amd-wrapper: cannot lease 1 GPU: 0 of 1 are free; 0 (GPU-")
	require.Contains(t, refused, "is held by container ")
	_, after, _ := strings.Cut(refused, "is held by container ")
	holder, _, _ := strings.Cut(after, " ")
	told := ""
	for _, u := range s.app.units[1:] {
		told += u.leases() + "\n"
	}
	require.Contains(t, told, "by container "+holder, "gpu-status names the same")
	s.letGo(held...)
	until(t, func() bool {
		out, err := s.execute("echo free again")
		require.NoError(t, err, out) // the containers of the finished builds are still there
		return strings.Contains(out, "\nfree again")
	})

	begin := time.Now()
	s.sets(map[string]any{"gpu-wait": "2m"})
	var waiting []*oneBuild
	for n := range 3 {
		waiting = append(waiting, s.starts(fmt.Sprintf("waits-%d", n)))
	}
	until(t, func() bool {
		for _, u := range s.app.units[1:] {
			if strings.Contains(u.leases(), "\nwaits") {
				return true
			}
		}
		return false
	}, "gpu-status tells of nobody who waits")
	for _, b := range waiting {
		require.False(t, b.ended(), "%s: %s", b.name, b.out)
	}
	s.letGo(waiting...)
	s.since(begin, "three tasks, of which one had to wait at the worker")

	begin = time.Now()
	s.sets(map[string]any{"gpu-wait": "0s", "limit-gpu-tasks": "auto"})
	env := read(s.web(), concourse.WebFiles(false).Env())
	require.Contains(t, env, concourse.TaskLimitKey+"=1")
	var queued []*oneBuild
	for n := range 3 {
		queued = append(queued, s.starts(fmt.Sprintf("queues-%d", n)))
	}
	until(t, func() bool {
		n := 0
		for _, b := range queued {
			if s.runs(b) {
				n++
			}
		}
		return n == 2
	}, "the web sends no two of them")
	s.letGo(queued...)
	all := queued[0].out + queued[1].out + queued[2].out
	require.Contains(t, all, "no suitable workers found, waiting for worker")
	s.since(begin, "three tasks, of which one had to wait at the web")
	s.sets(map[string]any{"gpu-sharing": "shared"})
}
