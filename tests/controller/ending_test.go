//go:build controller

package controller

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ends: Juju ends the relation of a removed application on both sides at once, and the
// webs hear of it while its worker has a task. The task waits for a file of the mirror's.
func (s *site) ends(t *testing.T, f *fly, m *mirror, app string) {
	f.login()
	c := f.command("execute", "-c", f.task("until wget -q -O /dev/null "+m.url+"/ended; do sleep 1; done; echo the task has ended; sleep 1"))
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	require.NoError(t, c.Start())
	worker := ""
	s.until("a task runs", func() bool {
		worker = f.runsOn()
		return worker != ""
	})
	s.juju("remove-application", "--model", f.model, "--no-prompt", app)
	s.eventually(f.model, "a web has heard of it", func(m model) bool { return strings.Contains(m.text(), app+"/0 has left and drains until ") })
	s.until(worker+" retires", func() bool { return f.workers()[worker] == "retiring" })
	require.NoError(t, os.WriteFile(filepath.Join(m.folder, "ended"), nil, 0o644))
	require.NoError(t, c.Wait(), said.String())
	require.Contains(t, said.String(), "the task has ended")
	s.eventually(f.model, app+" is gone", func(m model) bool { _, there := m.Applications[app]; return !there })
	require.NotContains(t, f.workers(), worker, "nothing is left to prune")
	require.NotContains(t, s.warnings(f.model), "could not drain", "it retired by itself")
	s.eventually(f.model, "the webs have taken its key", func(m model) bool {
		return !strings.Contains(m.text(), "has left")
	})
	for _, u := range s.model(f.model).units(f.app) {
		require.Empty(t, strings.TrimSpace(s.juju("exec", "--model", f.model, "--unit", u, "--", "cat /var/lib/concourse/keys/authorized_worker_keys")), u)
	}
}
