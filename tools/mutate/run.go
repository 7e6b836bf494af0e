package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Results of an edit.
const (
	killed      = "killed"
	survived    = "survived"
	notCompiled = "not compiled"
)

// Limits of the tests that an edit runs.
const (
	slowest = 15 * time.Second // packages with slower tests are left out
	batch   = 4                // importers that run at a time, the quickest first
	batches = 3
)

// tests runs tests with edits.
type tests struct {
	work     string                   // folder of edited files
	exec     string                   // the option -exec of go test
	baseline map[string]time.Duration // by package, of the tests without an edit
}

func command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Stderr = os.Stderr
	return c
}

func (t *tests) args(more ...string) []string {
	args := []string{"test", "-vet=off", "-buildvcs=false", "-count=1", "-p=1"}
	if t.exec != "" {
		args = append(args, "-exec="+t.exec)
	}
	return append(args, more...)
}

// measure runs the tests of the packages without an edit. It keeps the duration of those
// that pass.
func (t *tests) measure(packages []string) error {
	packages = slices.DeleteFunc(packages, func(p string) bool { _, ok := t.baseline[p]; return ok })
	if len(packages) == 0 {
		return nil
	}
	args := append(t.args("-json", "-p="+strconv.Itoa(parallel), "-timeout=5m"), packages...)
	out, err := command("go", args...).Output()
	if len(out) == 0 {
		return fmt.Errorf("cannot run the tests without an edit: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		var e struct {
			Action, Package, Test string
			Elapsed               float64
		}
		if json.Unmarshal([]byte(line), &e) != nil || e.Test != "" {
			continue
		}
		switch e.Action {
		case "pass":
			t.baseline[e.Package] = time.Duration(e.Elapsed * float64(time.Second))
		case "fail":
			fmt.Printf("left out, it fails without an edit: %s\n", e.Package)
		}
	}
	return nil
}

// order returns the packages to run for an edit in batches, the quickest first. Those that
// fail without an edit, and slow ones beside others, are left out.
func (t *tests) order(packages []string) [][]string {
	alone := len(packages) == 1
	packages = slices.DeleteFunc(slices.Clone(packages), func(p string) bool {
		took, ok := t.baseline[p]
		return !ok || took > slowest && !alone
	})
	slices.SortStableFunc(packages, func(a, b string) int { return cmp.Compare(t.baseline[a], t.baseline[b]) })
	return slices.Collect(slices.Chunk(packages[:min(len(packages), batch*batches)], batch))
}

// try returns the result of an edit, and the first package that noticed it.
func (t *tests) try(e edit, id int, order [][]string) (result, by string, err error) {
	src, err := os.ReadFile(e.file)
	if err != nil {
		return "", "", err
	}
	edited := filepath.Join(t.work, strconv.Itoa(id)+".go")
	text := string(src[:e.start]) + e.text + string(src[e.end:])
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{e.file: edited}})
	if err != nil {
		return "", "", err
	}
	for name, data := range map[string]string{edited: text, edited + ".json": string(overlay)} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			return "", "", err
		}
	}
	for _, packages := range order {
		var longest time.Duration
		for _, p := range packages {
			longest = max(longest, t.baseline[p])
		}
		limit := 10*longest + 20*time.Second // an edit can make a loop endless
		args := t.args("-failfast", "-overlay="+edited+".json", "-timeout="+limit.String())
		out, err := exec.Command("go", append(args, packages...)...).CombinedOutput()
		switch {
		case err == nil:
		case strings.Contains(string(out), "[build failed]"):
			return notCompiled, "", nil
		default:
			return killed, failed(string(out)), nil
		}
	}
	return survived, "", nil
}

// failed returns the first package that go test reports as failed.
func failed(out string) string {
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "FAIL" {
			return f[1]
		}
	}
	return ""
}
