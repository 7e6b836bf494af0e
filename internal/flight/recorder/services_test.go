package recorder

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
)

// programsOf holds the programs in the control group of a worker's service.
type programsOf map[int]string

// look lets a recorder look at these programs, and returns the events.
func (p programsOf) look(t *testing.T, s *services) (kinds []taskrecord.EventKind) {
	t.Helper()
	s.proc = t.TempDir()
	dir, pids := t.TempDir(), ""
	for pid, name := range p {
		pids += fmt.Sprintln(pid)
		at := filepath.Join(s.proc, fmt.Sprint(pid))
		require.NoError(t, os.Mkdir(at, 0o700))
		stat := fmt.Sprintf("%d (x) S 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 %d 1 1\n", pid, pid)
		require.NoError(t, os.WriteFile(filepath.Join(at, "stat"), []byte(stat), 0o600))
		require.NoError(t, os.Symlink("/opt/concourse/bin/"+name, filepath.Join(at, "exe")))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(pids), 0o600))
	s.look([]string{dir})
	for _, e := range s.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// Between fork and exec a child has the program of its parent.
func TestChildOfAProgramIsNotTheProgram(t *testing.T) {
	var s services
	main := programsOf{1: "concourse", 2: "containerd"}
	require.Empty(t, main.look(t, &s))
	require.Empty(t, main.look(t, &s))
	require.Empty(t, programsOf{1: "concourse", 2: "containerd", 3: "containerd"}.look(t, &s), "forked")
	require.Empty(t, programsOf{1: "concourse", 2: "containerd", 3: "runc"}.look(t, &s), "executed")
	require.Empty(t, main.look(t, &s), "its end")
	require.Empty(t, programsOf{1: "concourse", 2: "containerd", 4: "concourse"}.look(t, &s), "forked")
	require.Empty(t, main.look(t, &s), "ended before the next look")
}

func TestProgramsBeginAndEnd(t *testing.T) {
	var s services
	require.Empty(t, programsOf{1: "concourse", 2: "containerd"}.look(t, &s))
	require.Empty(t, programsOf{1: "concourse", 2: "containerd"}.look(t, &s))
	require.Equal(t, []taskrecord.EventKind{taskrecord.WorkerEnded},
		programsOf{2: "containerd", 3: "concourse"}.look(t, &s))
	require.Equal(t, []taskrecord.EventKind{taskrecord.WorkerBegan},
		programsOf{2: "containerd", 3: "concourse"}.look(t, &s))
	require.Equal(t, []taskrecord.EventKind{taskrecord.DaemonEnded}, programsOf{3: "concourse"}.look(t, &s))
}
