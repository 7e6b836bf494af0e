package main

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// bench is a folder with the programs, the unit, and the recorded answers.
type bench struct {
	dir   string
	world *sandbox.World
	env   []string // of a hook that is answered by the stubs
}

// recording, in the environment of a command, names the file of its answer; realTools is
// the folder with the command that knows it.
const (
	recording = "HOOK_BENCH_RECORD"
	realTools = "HOOK_BENCH_TOOLS"
)

// intercept answers when this program was started as one of the unit's
// commands: to answer it, or to record what another one answers.
func intercept() (code int, done bool) {
	if dir := os.Getenv(recording); dir != "" && os.Getenv(realTools) != "" {
		return recordCall(dir, os.Getenv(realTools), os.Args), true
	}
	return sandbox.Intercept()
}

// recordCall passes a command on and keeps the answer as the stub finds it,
// and the command line as the floor reads it.
func recordCall(dir, tools string, argv []string) int {
	name := filepath.Base(argv[0])
	c := exec.Command(filepath.Join(tools, name), argv[1:]...)
	c.Env = append(os.Environ(), recording+"=")
	var answer bytes.Buffer
	c.Stdout, c.Stderr = &answer, os.Stderr
	err := c.Run()
	if err == nil {
		h := fnv.New64a()
		h.Write([]byte(name + " " + strings.Join(argv[1:], " ")))
		err = os.WriteFile(fmt.Sprintf("%s/answers/%x", dir, h.Sum64()), answer.Bytes(), 0o644)
	}
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(dir+"/calls", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	}
	if err == nil {
		_, err = f.WriteString(strings.Join(append([]string{name}, argv[1:]...), "\x1f") + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot record %s: %v\n", name, err)
		return 1
	}
	os.Stdout.Write(answer.Bytes())
	return 0
}

// build makes the programs, all in the same way, and a charm whose other
// programs, which no hook runs, are empty.
func (b *bench) build() error {
	for name, pkg := range map[string]string{"charm/dispatch": "src/dispatch", "stub": "tests/bench/hook/stub", "floor": "tests/bench/hook/floor"} {
		c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", b.path(name), "github.com/fourdollars/concourse-ci-machine/"+pkg)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
		}
	}
	for _, dir := range []string{"charm/bin", "answers", "stubs", "recorders"} {
		if err := os.Mkdir(b.path(dir), 0o755); err != nil {
			return err
		}
	}
	for _, name := range hosttest.Programs {
		if err := os.WriteFile(b.path("charm/bin/"+name), nil, 0o755); err != nil {
			return err
		}
	}
	options, err := os.ReadFile("config.yaml")
	if err != nil {
		return fmt.Errorf("run it in the project's folder (make bench does): %w", err)
	}
	return os.WriteFile(b.path("charm/config.yaml"), options, 0o644)
}

// converge makes a ROCm worker that has all it wants.
func (b *bench) converge() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	tarball := b.path("concourse.tgz")
	if err := sandbox.StandInRelease(tarball, "8.2.5"); err != nil {
		return err
	}
	w, err := sandbox.New(sandbox.Options{Host: "internal/testutil/hosttest/hosts/amd", Charm: b.path("charm"), Exe: exe, Unit: "concourse-ci-machine/0"})
	if err != nil {
		return err
	}
	b.world = w
	w.Model.Resources = map[string]string{"concourse-release": tarball}
	for name, value := range map[string]any{"mode": "worker", "compute-runtime": "rocm", "amd-container-toolkit": "skip"} {
		if err := w.Model.SetConfig(name, value); err != nil {
			return err
		}
	}
	flight := w.Model.Relate(7, "flight", "web")
	flight.Units = map[string]map[string]string{"web/0": {"tsa-host": "10.0.0.2:2222", "concourse-version": "8.2.5",
		"tsa-public-key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ1Jq1s2cKQ0n3H8mDqk5m0vJqv5u0yF2n8mY6mJ2rD"}}
	for _, hook := range []string{"install", "update-status", "update-status"} {
		r, err := w.Hook(hook)
		if err != nil || r.Code != 0 {
			return fmt.Errorf("%s exited with %d: %v %s", hook, r.Code, err, r.Output)
		}
		if hook == "update-status" && r.Status().Status != "active" {
			return fmt.Errorf("the unit did not converge: %+v", r.Status())
		}
	}
	return nil
}

// record runs the hook once with recorders in front of the commands, and sets
// the environment in which the stubs answer instead.
func (b *bench) record() (calls []string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	tools := filepath.Join(b.world.Dir, "tools")
	names, err := os.ReadDir(tools)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		for dir, program := range map[string]string{"stubs": b.path("stub"), "recorders": exe} {
			if err := os.Symlink(program, b.path(dir+"/"+n.Name())); err != nil {
				return nil, err
			}
		}
	}
	ctx := b.world.Model.Begin(jujutest.Hook("update-status"))
	socket := b.path("juju.sock")
	server, err := jujutest.Serve(socket, func() *jujutest.Context { return ctx })
	if err != nil {
		return nil, err
	}
	defer server.Close()
	c := b.world.Command(ctx)
	b.env = append(slices.Clone(c.Env), "JUJU_AGENT_SOCKET_ADDRESS="+socket, "STUB_DIR="+b.path("answers"), "PATH="+b.path("stubs")+":/usr/bin:/bin")
	c.Env = append(c.Env, "JUJU_AGENT_SOCKET_ADDRESS="+socket, "PATH="+b.path("recorders")+":/usr/bin:/bin",
		recording+"="+b.dir, realTools+"="+tools)
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot record: %w: %s", err, out)
	}
	if err := ctx.Commit(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(b.path("calls"))
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), err
}
