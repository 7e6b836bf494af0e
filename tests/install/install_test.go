// Package install tests that `go install` and other modules can use this one: this tree is
// put into a module proxy of files, as a release is in the public proxy.
package install

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const (
	modulePath = "github.com/fourdollars/concourse-ci-machine"
	release    = "v1.2.3"
)

// file is a file of the tree, in a module's zip.
type file struct{ root, path string }

func (f file) Path() string                 { return filepath.ToSlash(f.path) }
func (f file) Lstat() (fs.FileInfo, error)  { return os.Lstat(filepath.Join(f.root, f.path)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.root, f.path)) }

// publish writes this tree as a release into the folder of a proxy. A file with a name
// that no module may have is an error.
func publish(t *testing.T, proxy string) {
	t.Helper()
	root := hosttest.Source()
	var files []zip.File
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, p)
		switch name {
		case ".git", "bin", "dist":
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if err == nil && d.Type().IsRegular() && !strings.HasSuffix(name, ".charm") {
			files = append(files, file{root, name})
		}
		return err
	}))
	dir := filepath.Join(proxy, modulePath, "@v")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	out, err := os.Create(filepath.Join(dir, release+".zip"))
	require.NoError(t, err)
	require.NoError(t, zip.Create(out, module.Version{Path: modulePath, Version: release}, files))
	require.NoError(t, out.Close())
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	for name, text := range map[string]string{"list": release + "\n", release + ".mod": string(mod),
		release + ".info": `{"Version":"` + release + `"}`} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
}

// user has Go and no checkout of this tree.
type user struct{ dir, bin string }

// newUser makes a user of the proxy. Other modules are taken from this machine's cache, or
// from its own proxy.
func newUser(t *testing.T) user {
	t.Helper()
	if _, err := os.Stat(filepath.Join(hosttest.Source(), "vendor")); err == nil {
		t.Skip("the modules are in vendor/, where no other module finds them")
	}
	dir := t.TempDir()
	publish(t, filepath.Join(dir, "proxy"))
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	require.NoError(t, err)
	cache, proxies, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	u := user{dir, filepath.Join(dir, "bin")}
	for name, value := range map[string]string{
		"GOPROXY": "file://" + dir + "/proxy,file://" + cache + "/cache/download," + proxies,
		"GOSUMDB": "off", "GOPRIVATE": "", "GONOPROXY": "none", "GOWORK": "off", "GOMODCACHE": dir + "/cache", "GOBIN": u.bin,
		"GOFLAGS": "-trimpath -modcacherw", "CGO_ENABLED": "0",
	} {
		t.Setenv(name, value)
	}
	return u
}

// run runs a program and returns its output.
func (u user) run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	c := exec.Command(program, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s %q: %s", program, args, out)
	return string(out)
}

// install installs a program of the release, which prints the release.
func (u user) install(t *testing.T, program string) {
	t.Helper()
	u.run(t, u.dir, "go", "install", modulePath+"/src/"+program+"@"+release)
	require.Equal(t, program+" "+strings.TrimPrefix(release, "v")+"\n",
		u.run(t, u.dir, filepath.Join(u.bin, program), "--version"))
}

func TestOtherModulesUseThisOne(t *testing.T) {
	u := newUser(t)
	dir := filepath.Join(u.dir, "collector")
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/collector")))
	u.run(t, dir, "go", "mod", "tidy")

	// Package amdgpu links one other module.
	require.Equal(t, `amdgpu_power_watts{pci="0000:03:00.0"} 137
amdgpu_busy_ratio{pci="0000:03:00.0"} 0.42
amdgpu_vram_used_bytes{pci="0000:03:00.0"} 6.174015488e+09
amdgpu_fan_rpm{pci="0000:03:00.0"} 1124
`, u.run(t, dir, "go", "run", ".", filepath.Join(hosttest.HostsDir(), "amd")))
	linked := strings.Fields(u.run(t, dir, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "."))
	slices.Sort(linked)
	require.Equal(t, []string{"example.com/collector", modulePath, "golang.org/x/sys"}, slices.Compact(linked))

	// The small program is compiled. The release has all packages and files of the others,
	// and the tests with real parts install them.
	u.install(t, "gpu-baseline")
	u.run(t, dir, "go", "list", "-mod=mod", "-deps", modulePath+"/src/gpukit", modulePath+"/src/rocm-exporter")
}
