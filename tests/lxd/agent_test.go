//go:build e2e

package lxd

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// The types of tests/juju/cmd/unitagent, which is its own module.
type (
	keptModel map[string]any
	logLine   struct{ Module, Level, Message string }
	ranHook   struct {
		Hook, Err string
		Logs      []logLine
	}
	answer struct {
		Ran    []ranHook
		Status struct{ Status, Message string }
		Action *struct {
			Status, Message string
			Results         map[string]any
		}
		Kept    keptModel
		Problem string
	}
)

// hookPatience bounds what one request to the agent takes.
const hookPatience = 2 * time.Minute

const unitName = "rocm-worker/0"

// agent is Juju's agent as a process of the container.
type agent struct {
	u    *unit
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
	errs bytes.Buffer
	last answer
}

// startAgent starts it; kept is nil for a unit that is new.
func (u *unit) startAgent(kept keptModel) {
	t := u.d.T
	t.Helper()
	model := map[string]any{
		"unit": unitName, "address": "10.0.1.10", "kept": kept,
		"options":   u.options,
		"resources": map[string]string{"concourse-release": parts + "/" + releaseFile},
		"peers":     map[string]string{"Endpoint": "peers", "Role": "peer", "Interface": "concourse-ci_peers"},
		"remote": map[string]any{
			"ours":   map[string]string{"Endpoint": "flight", "Role": "requirer", "Interface": "concourse-ci_tsa"},
			"theirs": map[string]string{"App": "web", "Endpoint": "tsa", "Role": "provider", "Interface": "concourse-ci_tsa"},
			"unit":   "web/0", "address": "10.0.1.1",
			"bag": map[string]string{"tsa-host": "10.0.1.1:2222", "concourse-version": "8.2.5",
				"tsa-public-key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ1Jq1s2cKQ0n3H8mDqk5m0vJqv5u0yF2n8mY6mJ2rD"},
		},
	}
	data, err := json.Marshal(model)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(u.parts, "model.json"), data, 0o644))
	a := &agent{u: u, cmd: u.d.Command("lxc", "exec", u.name, "--", parts+"/"+agentProgram, "-charm", parts+"/"+charmFile,
		"-jujuc", parts+"/"+hookTools, "-model", parts+"/model.json")}
	a.in, err = a.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := a.cmd.StdoutPipe()
	require.NoError(t, err)
	a.out, a.cmd.Stderr, a.cmd.WaitDelay = json.NewDecoder(out), &a.errs, time.Second
	require.NoError(t, a.cmd.Start())
	u.agent = a
}

// stop has the agent end, as it does when the machine goes down.
func (a *agent) stop() {
	a.in.Close()
	a.cmd.Wait() // it may have been killed with its machine
}

// ask sends one request.
func (a *agent) ask(request map[string]any) answer {
	t := a.u.d.T
	t.Helper()
	late := time.AfterFunc(hookPatience, func() { a.cmd.Process.Kill() })
	defer late.Stop()
	line, err := json.Marshal(request)
	require.NoError(t, err)
	_, err = a.in.Write(append(line, '\n'))
	require.NoError(t, err, &a.errs)
	a.last = answer{}
	if err := a.out.Decode(&a.last); err != nil {
		a.stop()
		require.NoError(t, err, "%v: %s", request, &a.errs)
	}
	require.Empty(t, a.last.Problem)
	return a.last
}

// text is what the charm logged.
func (r ranHook) text() string {
	var b strings.Builder
	for _, l := range r.Logs {
		b.WriteString(l.Message + "\n")
	}
	return b.String()
}

// status is the unit's.
func (a answer) status() string { return a.Status.Status + ": " + a.Status.Message }

// settle runs what is due, after options were set.
func (u *unit) settle(set map[string]any) (names []string) {
	u.d.T.Helper()
	for _, r := range u.agent.ask(map[string]any{"set": set}).Ran {
		require.Empty(u.d.T, r.Err, "%s: %s", r.Hook, r.text())
		names = append(names, r.Hook)
	}
	return names
}

// hook runs one hook, which must end well, and returns what it logged.
func (u *unit) hook(name string) string {
	u.d.T.Helper()
	r := u.agent.ask(map[string]any{"hook": name}).Ran[0]
	require.Empty(u.d.T, r.Err, r.text())
	return r.text()
}

// act runs an action, which must end well, and returns its results as text.
func (u *unit) act(name string) string {
	u.d.T.Helper()
	a := u.agent.ask(map[string]any{"action": name})
	require.Empty(u.d.T, a.Ran[0].Err)
	require.Equal(u.d.T, "completed", a.Action.Status, a.Action.Message)
	data, err := json.Marshal(a.Action.Results)
	require.NoError(u.d.T, err)
	return string(data)
}

// settled waits until the worker is ready: the hook that started it may have
// looked before it was.
func (u *unit) settled() {
	u.d.T.Helper()
	u.eventually(func() bool {
		u.hook("update-status")
		return u.said() == ready
	}, "the unit is not ready")
}
