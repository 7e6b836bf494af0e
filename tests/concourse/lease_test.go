//go:build e2e

package concourse

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
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
	log  string // the file of what fly reports
	out  string // the same, at the end
	err  error
	done chan struct{}
}

func (s *story) starts(name string, args ...string) *oneBuild {
	s.t.Helper()
	return s.begins(name, fmt.Sprintf("echo %s >/srv/out_rw/%[1]s; while [ ! -e /srv/out_rw/end ]; do sleep 1; done; echo %[1]s has ended", name), args...)
}

// begins does not wait for the build's end; args are fly's.
func (s *story) begins(name, script string, args ...string) *oneBuild {
	s.t.Helper()
	return s.follows(name, append(s.oneOff(name, script), args...)...)
}

// follows runs a command of fly that ends with its build.
func (s *story) follows(name string, args ...string) *oneBuild {
	s.t.Helper()
	b := &oneBuild{name: name, log: filepath.Join(s.fly.home, name+".log"), done: make(chan struct{})}
	log, err := os.Create(b.log)
	require.NoError(s.t, err)
	c := s.fly.command(args...)
	c.Stdout, c.Stderr = log, log
	require.NoError(s.t, c.Start())
	go func() {
		defer close(b.done)
		defer log.Close()
		b.err = c.Wait()
		data, err := os.ReadFile(b.log)
		b.out, b.err = string(data), errors.Join(b.err, err)
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

// leases is what the action gpu-status prints.
func (u *unit) leases() string {
	u.t.Helper()
	return u.must(filepath.Join(charmDir(), "dispatch") + " gpu status")
}

// exclusive: two workers of one GPU each. With no one to hold tasks back a task too many is
// refused, and its build reports who has the GPU; the web's own limit lets it queue there,
// if it can be aborted.
func (s *story) exclusive(t *testing.T) {
	s.sets(map[string]any{"gpu-sharing": "exclusive", "extra-web-flags": "--max-active-tasks-per-worker=0"})
	var held []*oneBuild
	refused := ""
	for n := range 3 { // if the web sends the second one is its own affair
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
	require.Contains(t, refused, "is held by the task of container ")
	_, after, _ := strings.Cut(refused, "is held by the task of container ")
	holder, _, _ := strings.Cut(after, " ")
	told := ""
	for _, u := range s.app.units[1:] {
		told += u.leases() + "\n"
	}
	require.Contains(t, told, "by the task of container "+holder, "gpu-status names the same")
	s.letGo(held...)
	until(t, func() bool {
		out, err := s.execute("echo free again")
		require.NoError(t, err, out) // the containers of the finished builds are still there
		return strings.Contains(out, "\nfree again")
	})

	begin := time.Now()
	s.sets(map[string]any{"extra-web-flags": ""})
	env := read(s.web(), concourse.HomeWebFiles().Env())
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
