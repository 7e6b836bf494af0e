package setup

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkout is a folder with the script alone, and a Go that has all modules.
func checkout(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // for another user, see needBuild
	script, err := os.ReadFile("../../scripts/need-build.sh")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir+"/scripts", 0o755))
	require.NoError(t, os.WriteFile(dir+"/scripts/need-build.sh", script, 0o755))
	require.NoError(t, os.Mkdir(dir+"/tools", 0o755))
	require.NoError(t, os.WriteFile(dir+"/tools/go", []byte("#!/bin/sh\n"), 0o755))
	return dir, []string{"PATH=" + dir + "/tools:" + os.Getenv("PATH"), "HOME=" + dir, "VERSION=1.2.3"}
}

func needBuild(t *testing.T, dir string, env []string, folder, arch string) (code int, text string) {
	t.Helper()
	c := exec.Command(dir+"/scripts/need-build.sh", folder, arch)
	c.Env = env
	if os.Geteuid() == 0 && dir != "../.." { // permissions hold root back from nothing
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		require.NoError(t, err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

func TestBuildThatCannotWorkIsReportedAtOnce(t *testing.T) {
	dir, env := checkout(t)
	bin := dir + "/bin"
	require.NoError(t, os.Mkdir(bin, 0o777))
	require.NoError(t, os.Chmod(bin, 0o777))
	for _, arch := range []string{"amd64", "arm64"} {
		code, out := needBuild(t, dir, env, bin, arch)
		require.Zero(t, code, out)
		require.Equal(t, "Building into "+bin+" for "+arch+": some minutes at first, seconds later.\n", out)
	}
	require.NoError(t, os.WriteFile(bin+"/dispatch", nil, 0o755))
	code, out := needBuild(t, dir, env, "bin", "amd64")
	require.Zero(t, code, out)
	require.Empty(t, out, "the second time is no news")

	code, out = needBuild(t, dir, env, "bin", "riscv64")
	require.Equal(t, 1, code)
	require.Contains(t, out, "The charm is for amd64 and arm64, as Concourse is released for these; this is riscv64.\n")
	require.Contains(t, out, "make charm GOARCH=amd64")

	require.NoError(t, os.Chmod(dir, 0o555))
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
	code, out = needBuild(t, dir, env, "bin2/arm64", "arm64")
	require.Equal(t, 1, code)
	require.Contains(t, out, "can't write to "+dir+", where the programs would go.\n")
	require.Contains(t, out, "make build BIN=")

	code, out = needBuild(t, dir, env, "scripts/need-build.sh/bin", "amd64")
	require.Equal(t, 1, code)
	require.Contains(t, out, "scripts/need-build.sh is no folder")
	left, err := filepath.Glob(bin + "/.need*")
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestVersionThatIsUnknownHasItsReason(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir, env := checkout(t)
	unknown := append(env, "VERSION=unknown")
	_, out := needBuild(t, dir, unknown, os.TempDir(), "amd64")
	require.Contains(t, out, `The programs will call themselves "unknown": fatal: not a git repository`)
	require.Contains(t, out, "make VERSION=1.2.3 ...")

	require.NoError(t, exec.Command("git", "init", "--quiet", dir).Run())
	// git's own tests have this variable, for a clone of another program.
	_, out = needBuild(t, dir, append(unknown, "GIT_TEST_ASSUME_DIFFERENT_OWNER=1"), os.TempDir(), "amd64")
	require.Contains(t, out, `"unknown": fatal: detected dubious ownership`)
	require.Contains(t, out, "git config --global --add safe.directory "+dir+"\n")
}

// The real Go, which has no module here and no way to any.
func TestMissingModulesAreReportedAtOnce(t *testing.T) {
	path, err := exec.LookPath("go")
	require.NoError(t, err)
	env := []string{"PATH=" + filepath.Dir(path) + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GOMODCACHE=" + t.TempDir(),
		"GOTOOLCHAIN=local", "GOFLAGS=-modcacherw", "VERSION=1.2.3"}
	for proxy, want := range map[string]string{
		"off":                "Go modules are missing here, and GOPROXY=off keeps Go from fetching them.\nWith a network: GOPROXY=",
		"http://127.0.0.1:9": "Go can't fetch the modules from http://127.0.0.1:9.\nBy a proxy: https_proxy=",
	} {
		code, out := needBuild(t, "../..", append(env, "GOPROXY="+proxy), os.TempDir(), runtime.GOARCH)
		require.Equal(t, 1, code, out)
		require.Contains(t, out, want)
		require.Contains(t, out, "go mod vendor")
	}

	// make packages also needs modules of a program that only it builds.
	c := exec.Command("make", "--directory=../..", "packages")
	c.Env = append(env, "GOPROXY=off")
	out, err := c.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "Go modules are missing here, and GOPROXY=off keeps Go from fetching them.\n")
	require.NotContains(t, string(out), "module lookup disabled")
}

func TestModulesOfEachProgramAreChecked(t *testing.T) {
	dir, env := checkout(t)
	for _, missing := range []string{"./src/...", "src/gpu-dra-driver", "tools/packages"} {
		script := "#!/bin/sh\ncase \"$*\" in *" + missing + "*) echo 'module lookup disabled by GOPROXY=off' >&2; exit 1 ;; " +
			"'env GOPROXY') echo off ;; esac\n"
		require.NoError(t, os.WriteFile(dir+"/tools/go", []byte(script), 0o755))
		code, out := needBuild(t, dir, append(env, "MODULES=tools/packages"), os.TempDir(), "amd64")
		require.Equal(t, 1, code, missing)
		require.Contains(t, out, "Go modules are missing here", missing)
	}
}
