//go:build controller

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	flies "github.com/fourdollars/concourse-ci-machine/tests/fly"
)

// fly is Concourse's own client, of the release, on the host.
type fly struct {
	s             *site
	home, program string
	model, app    string
}

func (s *site) newFly(t *testing.T, model, app string) *fly {
	t.Helper()
	return &fly{s: s, home: t.TempDir(), program: flies.Program(t), model: model, app: app}
}

func (f *fly) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(f.s.T.Context(), unitPatience)
	f.s.T.Cleanup(cancel)
	c := exec.CommandContext(ctx, "nsenter", slices.Concat([]string{"-t", strconv.Itoa(f.s.Init), "-n", "--", f.program, "-t", "test"}, args)...)
	c.Env = append(os.Environ(), "HOME="+f.home)
	c.WaitDelay = time.Second
	return c
}

// login is as the first user, at the web that leads now.
func (f *fly) login() {
	f.s.T.Helper()
	password := f.s.password(f.model, f.app)
	out, err := f.command("login", "-c", f.s.web(f.model, f.app), "-u", "admin", "-p", password).CombinedOutput()
	require.NoError(f.s.T, err, "%s", out)
}

// web is the address of the web that leads.
func (s *site) web(model, app string) string {
	s.T.Helper()
	m := s.model(model)
	return "http://" + m.unit(m.leader(app)).Address + ":8080"
}

// password is the first user's.
func (s *site) password(model, app string) string {
	s.T.Helper()
	var told map[string]struct{ Results struct{ Password string } }
	require.NoError(s.T, json.Unmarshal([]byte(s.juju("run", "--model", model, "--format=json", app+"/leader", "get-admin-password")), &told))
	for _, r := range told {
		require.NotEmpty(s.T, r.Results.Password)
		return r.Results.Password
	}
	require.Fail(s.T, "get-admin-password tells nothing")
	return ""
}

// ask decodes what fly lists.
func (f *fly) ask(into any, args ...string) {
	f.s.T.Helper()
	out, err := f.command(append(args, "--json")...).Output()
	require.NoError(f.s.T, err, "fly %v", args)
	require.NoError(f.s.T, json.Unmarshal(out, into))
}

// workers are the states of those that the web lists, by name.
func (f *fly) workers() map[string]string {
	f.s.T.Helper()
	var list []struct{ Name, State string }
	f.ask(&list, "workers")
	states := map[string]string{}
	for _, w := range list {
		states[w.Name] = w.State
	}
	return states
}

// task is a task's file.
func (f *fly) task(script string) string {
	f.s.T.Helper()
	path := filepath.Join(f.home, "task.yml")
	text := fmt.Sprintf("platform: linux\nimage_resource: {type: registry-image, source: {repository: busybox}}\nrun: {path: sh, args: [-ec, %q]}\n", script)
	require.NoError(f.s.T, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// where waits until the task of the current build runs, and returns the worker's name and
// its unit's.
func (f *fly) where() (worker, unit string) {
	f.s.T.Helper()
	f.s.until("a task runs", func() bool {
		worker = f.runsOn()
		return worker != ""
	})
	for _, u := range f.s.model(f.model).units(f.app) {
		if strings.HasPrefix(worker, strings.ReplaceAll(u, "/", "-")+"-") {
			return worker, u
		}
	}
	require.Fail(f.s.T, "no unit's worker is called "+worker)
	return "", ""
}

func (f *fly) runsOn() string {
	f.s.T.Helper()
	var builds []struct {
		ID     int
		Status string
	}
	var containers []struct {
		Worker string `json:"worker_name"`
		Build  int    `json:"build_id"`
		Type   string
		State  string
	}
	f.ask(&builds, "builds")
	f.ask(&containers, "containers")
	for _, b := range builds {
		for _, c := range containers {
			if b.Status == "started" && c.Build == b.ID && c.Type == "task" && c.State == "created" {
				return c.Worker
			}
		}
	}
	return ""
}
