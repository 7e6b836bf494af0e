// Package imports checks the direction of imports. Each folder of internal/ may import
// itself and the folders that its row names. The test reads `go list` and the source.
package imports

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

const module = "github.com/fourdollars/concourse-ci-machine/"

// listed is what go list reports of a package; Deps is all that it needs.
type listed struct {
	ImportPath    string
	Imports, Deps []string
}

func packages(t *testing.T) (all []listed) {
	t.Helper()
	// go test keeps a result as long as the files that the test itself opened
	// are the same; it does not see what go list reads.
	for _, dir := range []string{"../../internal", "../../src", "../../amdgpu"} {
		require.NoError(t, filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(file, ".go") {
				_, err = os.ReadFile(file)
			}
			return err
		}))
	}
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"src/...", module+"internal/...", module+"amdgpu/...").Output()
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

// folders maps each folder of internal/ to the folders that it may import.
var folders = map[string][]string{
	"base":      nil,
	"gpu":       {"base"},
	"concourse": {"base"},
	"pool":      {"gpu", "base"},
	"flight":    {"pool", "gpu", "base"},
	"oci":       {"pool", "gpu", "base"},
	"exporter":  {"flight", "pool", "gpu", "concourse", "base"},
	"kube":      {"oci", "pool", "gpu", "base"},
	"charm":     {"exporter", "kube", "oci", "flight", "pool", "gpu", "concourse", "base"},
	"testutil":  {"charm", "exporter", "kube", "oci", "flight", "pool", "gpu", "concourse", "base"},
}

// charmLayers lists the packages of internal/charm from the lowest to the highest. A
// package imports its own layer and those below it.
var charmLayers = [][]string{
	{"amd", "nvidia", "juju", "config", "machine", "status", "predecessor", "command/term", "command/remote",
		"runners"},
	{"healthcheck", "relation"},
	{"model", "gpuhealth"},
	{"role", "command/top"},
	{"worker", "web", "workstation"},
	{".", "preflight"},
	{"watcher"},
	{"command/actions", "command/report", "workstation"},
	{"onemachine"},
	{"command/cli"},
}

// folderOf returns the folder of internal/ that holds a package, "" for other packages.
func folderOf(p string) string {
	rest, ok := strings.CutPrefix(p, module+"internal/")
	if !ok {
		return ""
	}
	folder, _, _ := strings.Cut(rest, "/")
	return folder
}

func TestFoldersImportOnlyWhatTheirRowNames(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		from := folderOf(p.ImportPath)
		if from == "" {
			continue
		}
		seen[from] = true
		allowed, ok := folders[from]
		require.True(t, ok, "internal/%s has no row", from)
		for _, i := range p.Imports {
			if to := folderOf(i); to != "" && to != from {
				require.Contains(t, allowed, to, "%s imports %s", p.ImportPath, i)
			}
		}
	}
	require.Len(t, seen, len(folders), "a row has no folder")
}

func TestCharmImportsRunOneWay(t *testing.T) {
	level := func(p string) int {
		rest := strings.TrimPrefix(strings.TrimPrefix(p, module+"internal/charm"), "/")
		return slices.IndexFunc(charmLayers, func(l []string) bool { return slices.Contains(l, path.Clean(rest)) })
	}
	for _, p := range packages(t) {
		if folderOf(p.ImportPath) != "charm" {
			continue
		}
		require.NotEqual(t, -1, level(p.ImportPath), "%s is in no layer", p.ImportPath)
		for _, i := range p.Imports {
			if folderOf(i) == "charm" {
				require.LessOrEqual(t, level(i), level(p.ImportPath), "%s imports %s", p.ImportPath, i)
			}
		}
	}
}

func TestOnlyOnePackageDoesEachDangerousThing(t *testing.T) {
	for _, p := range packages(t) {
		if folderOf(p.ImportPath) == "testutil" {
			continue
		}
		if slices.Contains(p.Imports, "os/exec") {
			require.True(t, in(p.ImportPath, "internal/base/host"), "%s starts programs", p.ImportPath)
		}
		if slices.Contains(p.Imports, "github.com/canonical/pebble/client") {
			require.True(t, in(p.ImportPath, "internal/base/resource"), "%s speaks to Pebble", p.ImportPath)
		}
	}
}

// Leases are in the wrapper, which lives for a millisecond, and below all who use them. Only
// names and a reader of /proc come with them.
func TestLeasesNeedNothingButTheWrappersJSON(t *testing.T) {
	all := packages(t)
	at := slices.IndexFunc(all, func(p listed) bool { return p.ImportPath == module+"internal/pool/lease" })
	require.NotEqual(t, -1, at)
	for _, d := range all[at].Deps {
		if first, _, _ := strings.Cut(d, "/"); strings.Contains(first, ".") || strings.HasPrefix(d, module) {
			known := []string{module + "internal/base/folder", module + "internal/base/procfile", module + "internal/base/rawjson", module + "internal/base/units",
				module + "internal/base/wellknown", "github.com/moby/sys/mountinfo", "golang.org/x/sys/unix"}
			require.Contains(t, known, d, "internal/pool/lease")
		}
	}
}

// A hook starts a program each time: it reads the answers of exporters and reports them how
// to log in, and links nothing that serves.
func TestDispatchLinksNoServerOfMetrics(t *testing.T) {
	all := packages(t)
	at := slices.IndexFunc(all, func(p listed) bool { return p.ImportPath == module+"src/dispatch" })
	require.NotEqual(t, -1, at)
	require.Contains(t, all[at].Deps, module+"internal/exporter/api")
	for _, d := range all[at].Deps {
		served := strings.HasPrefix(d, "github.com/prometheus/") && !strings.HasPrefix(d, "github.com/prometheus/procfs")
		require.False(t, served || d == module+"internal/base/metricsserver", "dispatch links %s", d)
	}
}

// Clients of rocm-exporter read its answers, and no GPUs.
func TestAnswersOfTheExporterLinkNoReaderOfGPUs(t *testing.T) {
	all := packages(t)
	for _, client := range []string{"internal/exporter/api", "src/concourse-exporter"} {
		at := slices.IndexFunc(all, func(p listed) bool { return p.ImportPath == module+client })
		require.NotEqual(t, -1, at, client)
		require.NotContains(t, all[at].Deps, module+"internal/exporter/monitor", client)
	}
}

// Test support is never shipped.
func TestTestSupportIsInNoShippedProgram(t *testing.T) {
	found := 0
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, module+"src/") || strings.Count(strings.TrimPrefix(p.ImportPath, module), "/") > 1 {
			continue
		}
		found++
		for _, d := range p.Deps {
			require.NotEqual(t, "testutil", folderOf(d), "%s contains %s", p.ImportPath, d)
		}
	}
	require.Equal(t, 8, found)
}

// Other programs import amdgpu: it needs little of this module, and one other module.
func TestPublicPackagesNeedLittle(t *testing.T) {
	found := 0
	for _, p := range packages(t) {
		if !in(p.ImportPath, "amdgpu") {
			continue
		}
		found++
		for _, d := range p.Deps {
			if first, _, _ := strings.Cut(d, "/"); strings.Contains(first, ".") {
				require.True(t, d == "golang.org/x/sys/unix" || in(d, "amdgpu", "internal/base/folder", "internal/base/host", "internal/base/pci", "internal/gpu/amd/chips", "internal/gpu/sysfile"),
					"%s needs %s", p.ImportPath, d)
			}
		}
	}
	require.Equal(t, 2, found)
}

// The charm ships gpu-baseline and does not link it.
func TestCharmDoesNotLinkGPUBaseline(t *testing.T) {
	for _, p := range packages(t) {
		if !in(p.ImportPath, "src/gpu-baseline") {
			require.False(t, slices.ContainsFunc(p.Imports, func(i string) bool { return in(i, "src/gpu-baseline") }), p.ImportPath)
		}
	}
}

// namesVendor reports whether the file names a vendor: gpu.AMD, or a comparison with the
// text of a vendor or its runtime.
func namesVendor(f *ast.File) (found bool) {
	var texts []string
	for _, v := range gpu.Vendors() {
		texts = append(texts, strconv.Quote(string(v)), strconv.Quote(v.Traits().Runtime))
	}
	isText := func(e ast.Expr) bool {
		l, ok := e.(*ast.BasicLit)
		return ok && slices.Contains(texts, l.Value)
	}
	named := func(name string) bool { // AMD and AMDKind are of amd
		return ast.IsExported(name) && slices.ContainsFunc(gpu.Vendors(), func(v gpu.Vendor) bool {
			return strings.HasPrefix(strings.ToLower(name), string(v))
		})
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			found = found || ok && x.Name == "gpu" && named(n.Sel.Name)
		case *ast.Ident:
			found = found || f.Name.Name == "gpu" && named(n.Name)
		case *ast.BinaryExpr:
			found = found || isText(n.X) || isText(n.Y)
		case *ast.CaseClause:
			found = found || slices.ContainsFunc(n.List, isText)
		}
		return true
	})
	return found
}

// A vendor is named in its file such as amd.go, in the registries, and below the folder of
// the vendor. Other code checks a gpu.Feature.
func TestOnlyVendorsNameAVendor(t *testing.T) {
	files, below, registries := []string{"vendor.go"}, []string{"/internal/testutil/"}, 0
	for _, v := range gpu.Vendors() {
		files, below = append(files, string(v)+".go"), append(below, "/"+string(v)+"/")
	}
	for _, dir := range []string{"../../internal", "../../src"} {
		require.NoError(t, filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
			name := filepath.Base(file)
			own := slices.ContainsFunc(below, func(folder string) bool { return strings.Contains(file, folder) })
			if err != nil || own || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil || !namesVendor(f) {
				return err
			}
			require.Contains(t, files, name, file)
			if name == "vendor.go" {
				registries++
			}
			return nil
		}))
	}
	require.Equal(t, 4, registries)
}
