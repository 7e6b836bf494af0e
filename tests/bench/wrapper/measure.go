package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// variant is one program called in one way, and what was measured of it.
type variant struct {
	name    string
	program string
	config  string // which one: wrapper<config>.json
	env     string // of the container, apart from the usual
	words   func(i int) []string
	times   int // how many at once; 1 or parallel

	wall, cpu []time.Duration
	rss       string // KiB
}

// The names by which the report finds variants.
const (
	bare, floor      = "bare", "floor"
	create2, create8 = "create, 2 GPUs", "create, 8 GPUs"
	marked           = "exec, marked"
	otherCalls       = "state, start, kill, delete"
	floor8x          = "8 x floor"
	create8x2        = "8 x create, 2 GPUs"
	create8x         = "8 x create, 8 GPUs"
	create1          = "create, 1 of 8 GPUs"
	leased1          = "create leased, 1 of 8 GPUs"
	leasedLast       = "create leased, the last of 8"

	wrapper = "runc-amd-wrapper"
	other   = "other build" // what -against names

	usualEnv = "JOB=4"
)

func (b *bench) variants() []*variant {
	globals := []string{"--root", b.path("root/concourse"), "--log", b.path("log.json"), "--log-format", "json"}
	call := func(words ...string) func(int) []string {
		return func(int) []string { return append(slices.Clone(globals), words...) }
	}
	create := func(i int) []string {
		return append(slices.Clone(globals), "create", "--bundle", b.bundle(i), "--pid-file", b.path("pid"), "--no-new-keyring", "c"+strconv.Itoa(i))
	}
	return []*variant{
		{name: bare, program: "true", config: "2", words: create, times: 1},
		{name: floor, program: "floor", config: "2", words: create, times: 1},
		{name: create2, program: wrapper, config: "2", words: create, times: 1},
		{name: create8, program: wrapper, config: "8", words: create, times: 1},
		{name: create1, program: wrapper, config: "8", env: "AMD_VISIBLE_DEVICES=0", words: create, times: 1},
		{name: leased1, program: wrapper, config: "8-leased", words: create, times: 1},
		{name: leasedLast, program: wrapper, config: "8-busy", words: create, times: 1},
		{name: "state", program: wrapper, config: "8", words: call("state", "c0"), times: 1},
		{name: "start", program: wrapper, config: "8", words: call("start", "c0"), times: 1},
		{name: "kill", program: wrapper, config: "8", words: call("kill", "--all", "c0", "9"), times: 1},
		{name: "delete", program: wrapper, config: "8", words: call("delete", "--force", "c0"), times: 1},
		{name: marked, program: wrapper, config: "8", times: 1,
			words: call("exec", "--process", b.path("process"), "--detach", "--pid-file", b.path("pid"), "marked")},
		{name: "8 x bare", program: "true", config: "8", words: create, times: parallel},
		{name: floor8x, program: "floor", config: "8", words: create, times: parallel},
		{name: create8x2, program: wrapper, config: "2", words: create, times: parallel},
		{name: create8x, program: wrapper, config: "8", words: create, times: parallel},
	}
}

// others are the variants of another build of the wrapper.
func others(variants []*variant) (list []*variant) {
	for _, v := range variants {
		if v.program == wrapper {
			o := *v
			o.name, o.program = nameOfOther(v.name), other
			list = append(list, &o)
		}
	}
	return list
}

func nameOfOther(name string) string { return name + ", " + other }

func (b *bench) round(variants []*variant) error {
	for _, i := range rand.Perm(len(variants)) {
		if err := b.measure(variants[i]); err != nil {
			return fmt.Errorf("%s: %w", variants[i].name, err)
		}
	}
	return nil
}

// env leaves the wrapper to find the real runc in its config, as on a unit.
func (b *bench) env(v *variant) []string {
	if v.program == "floor" {
		return []string{"PATH=/usr/bin:/bin", oci.EnvRuntime + "=" + b.path("true")}
	}
	return []string{"PATH=/usr/bin:/bin", oci.EnvConfig + "=" + b.path("wrapper"+v.config+".json")}
}

// fresh puts back the bundles as Concourse makes them, for containers that were
// never there before.
func (b *bench) fresh(v *variant) error {
	spec := b.spec
	if v.env != "" {
		var err error
		if spec, err = json.MarshalIndent(taskSpec(v.env), "", " "); err != nil {
			return err
		}
	}
	for i := range v.times {
		if err := os.Remove(filepath.Join(b.fast, "state", "c"+strconv.Itoa(i))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(filepath.Join(b.bundle(i), "config.json"), spec, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) measure(v *variant) error {
	if err := b.fresh(v); err != nil {
		return err
	}
	program := b.path(v.program)
	attr := &os.ProcAttr{Env: b.env(v), Files: []*os.File{nil, nil, os.Stderr}}
	var argv [][]string
	for i := range v.times {
		name := program
		if v.program == wrapper || v.program == other {
			name = "runc" // as Concourse calls it
		}
		argv = append(argv, append([]string{name}, v.words(i)...))
	}
	started := make([]*os.Process, v.times)
	var cpu time.Duration
	start := time.Now()
	for i := range started {
		p, err := os.StartProcess(program, argv[i], attr)
		if err != nil {
			return err
		}
		started[i] = p
	}
	for _, p := range started {
		state, err := p.Wait()
		if err != nil {
			return err
		}
		if !state.Success() {
			return fmt.Errorf("%s", state)
		}
		cpu += state.UserTime() + state.SystemTime()
	}
	v.wall, v.cpu = append(v.wall, time.Since(start)), append(v.cpu, cpu)
	return nil
}

// memory runs the variant once below busybox's time: the kernel counts the
// pages of the program that forked, too, and this one's are many.
func (b *bench) memory(v *variant) error {
	v.rss = "-"
	busybox, err := exec.LookPath("busybox")
	if err != nil || v.times > 1 {
		return nil
	}
	if err := b.fresh(v); err != nil {
		return err
	}
	program := b.path(v.program)
	if v.program == wrapper || v.program == other {
		program = filepath.Join(b.path(v.program+".d"), "runc") // busybox calls it by its path
		if err := errors.Join(os.MkdirAll(filepath.Dir(program), 0o755), os.RemoveAll(program), os.Symlink(b.path(v.program), program)); err != nil {
			return err
		}
	}
	c := exec.Command(busybox, append([]string{"time", "-f", "%M", "-o", b.path("rss"), program}, v.words(0)...)...)
	c.Env = b.env(v)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	data, err := os.ReadFile(b.path("rss"))
	if err != nil {
		return err
	}
	// busybox takes the kernel's KiB for pages and multiplies once more.
	kib, err := strconv.Atoi(strings.TrimSpace(string(data)))
	v.rss = strconv.Itoa(kib * 1024 / os.Getpagesize())
	return err
}
