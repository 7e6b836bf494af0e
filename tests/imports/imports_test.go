// Package imports keeps the direction of imports: src, cli, actions, gpuwatch, {charm,
// preflight}, {worker, web}, role, {model, machine, status}, the subjects, release, {resource,
// juju, config}, plan, host. It reads what `go list` says and
// compiles nothing.
package imports

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "concourse-ci-machine/"

// listed is what go list says of a package; Deps is all that it needs.
type listed struct {
	ImportPath    string
	Imports, Deps []string
}

func packages(t *testing.T) (all []listed) {
	t.Helper()
	// go test keeps a result as long as the files that the test itself opened
	// are the same; it does not see what go list reads.
	for _, dir := range []string{"../../internal", "../../src"} {
		require.NoError(t, filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(file, ".go") {
				_, err = os.ReadFile(file)
			}
			return err
		}))
	}
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"src/...", module+"internal/...").Output()
	require.NoError(t, err)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, p)
	}
}

// in reports whether a package is one of the folders, or below one.
func in(p string, folders ...string) bool {
	p = strings.TrimPrefix(p, module)
	return slices.ContainsFunc(folders, func(f string) bool { return p == f || strings.HasPrefix(p, f+"/") })
}

// standIns are the packages that are no part of the charm: they play the
// machine for the demo, tests and benchmarks.
var standIns = []string{"internal/sandbox", "src/sandbox", "internal/juju/jujutest", "internal/host/hosttest", "internal/metricsserver/siege", "internal/exporter/exportertest"}

func TestImportsRunOneWay(t *testing.T) {
	layers := [][]string{
		{"internal/host", "internal/version", "internal/agreed", "internal/plaintext", "internal/flylogin", "internal/metricsserver"},
		{"internal/plan"},
		{"internal/resource", "internal/juju", "internal/config"},
		{"internal/release"},
		{"internal/concourse", "internal/predecessor", "internal/rocm", "internal/nvidia", "internal/cdi", "internal/engines", "internal/nodelabels", "internal/relation", "internal/gpu", "internal/gpuservice", "internal/gpuproof", "internal/tasknote", "internal/oci", "internal/lease", "internal/pin", "internal/exporter", "internal/drm", "internal/jobexporter", "internal/postgres", "internal/baseline"},
		{"internal/deviceplugin"},
		{"internal/model", "internal/machine", "internal/status", "internal/gpustate", "internal/term"},
		{"internal/role"},
		{"internal/worker", "internal/web"},
		{"internal/charm", "internal/preflight"},
		{"internal/gpuwatch"},
		{"internal/actions"},
		{"internal/cli"},
		{"src"},
	}
	level := func(p string) int {
		return slices.IndexFunc(layers, func(folders []string) bool { return in(p, folders...) })
	}
	seen := 0
	for _, p := range packages(t) {
		if in(p.ImportPath, standIns...) || level(p.ImportPath) < 0 {
			continue
		}
		seen++
		for _, i := range p.Imports {
			require.LessOrEqual(t, level(i), level(p.ImportPath), "%s imports %s", p.ImportPath, i)
		}
	}
	require.Greater(t, seen, 15, "go list found too little")
}

func TestOnlyOnePackageDoesEachDangerousThing(t *testing.T) {
	for _, p := range packages(t) {
		if in(p.ImportPath, standIns...) {
			continue
		}
		if slices.Contains(p.Imports, "os/exec") {
			require.True(t, in(p.ImportPath, "internal/host"), "%s starts programs", p.ImportPath)
		}
		if slices.Contains(p.Imports, "github.com/canonical/pebble/client") {
			require.True(t, in(p.ImportPath, "internal/resource"), "%s speaks to Pebble", p.ImportPath)
		}
		if in(p.ImportPath, "internal/oci", "internal/exporter", "internal/gpu") {
			require.False(t, slices.Contains(p.Deps, module+"internal/juju"), "%s needs Juju", p.ImportPath)
		}
		if in(p.ImportPath, "internal/jobexporter") {
			require.NotContains(t, p.Deps, module+"internal/exporter", "what both exporters need is in internal/metricsserver")
		}
	}
}

// Leases are in the wrapper, which lives for a millisecond, and below all who use them.
func TestLeasesNeedNothingButTheWrappersJSON(t *testing.T) {
	all := packages(t)
	at := slices.IndexFunc(all, func(p listed) bool { return p.ImportPath == module+"internal/lease" })
	require.NotEqual(t, -1, at)
	for _, d := range all[at].Deps {
		if first, _, _ := strings.Cut(d, "/"); strings.Contains(first, ".") || strings.HasPrefix(d, module) {
			require.True(t, d == module+"internal/oci/rawjson" || d == "golang.org/x/sys/unix", "internal/lease needs %s", d)
		}
	}
}

// A hook starts a program each time: it reads what exporters answer and tells them how to
// log in, and links nothing that serves.
func TestDispatchLinksNoServerOfMetrics(t *testing.T) {
	all := packages(t)
	at := slices.IndexFunc(all, func(p listed) bool { return p.ImportPath == module+"src/dispatch" })
	require.NotEqual(t, -1, at)
	require.Contains(t, all[at].Deps, module+"internal/exporter/api")
	for _, d := range all[at].Deps {
		require.False(t, strings.HasPrefix(d, "github.com/prometheus/") || d == module+"internal/metricsserver", "dispatch links %s", d)
	}
}

// What plays the machine is never shipped.
func TestStandInsAreInNoShippedProgram(t *testing.T) {
	found := 0
	for _, p := range packages(t) {
		if !slices.Contains([]string{"dispatch", "runc-amd-wrapper", "rocm-exporter", "concourse-exporter", "gpu-baseline", "gpu-device-plugin"}, path.Base(p.ImportPath)) || !in(p.ImportPath, "src") {
			continue
		}
		found++
		for _, d := range p.Deps {
			require.False(t, in(d, standIns...), "%s contains %s", p.ImportPath, d)
		}
	}
	require.Equal(t, 6, found)
}
