package debian

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Programs downloads packages, with the packages that this machine lacks for them, and
// unpacks them into dir. It installs nothing. Use adds their programs to this process.
func Programs(ctx context.Context, dir string, packages ...string) error {
	archives, lists := filepath.Join(dir, "archives"), filepath.Join(dir, "lists")
	for _, d := range []string{archives, lists} {
		if err := os.MkdirAll(filepath.Join(d, "partial"), 0o755); err != nil {
			return err
		}
	}
	get := func(options ...string) error {
		argv := append([]string{"apt-get", "-o", "Debug::NoLocking=true", "-o", "Dir::Cache::archives=" + archives,
			"-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="}, options...)
		return run(ctx, nil, []string{"DEBIAN_FRONTEND=noninteractive"}, argv...)
	}
	install := append([]string{"install", "--yes", "--download-only", "--no-install-recommends"}, packages...)
	if err := get(install...); err != nil { // perhaps the machine has no lists of packages
		own := []string{"-o", "Dir::State::lists=" + lists}
		if updated := get(append(own, "update")...); updated != nil {
			return fmt.Errorf("cannot download %s: %w", strings.Join(packages, " "), err)
		}
		if err := get(append(own, install...)...); err != nil {
			return fmt.Errorf("cannot download %s: %w", strings.Join(packages, " "), err)
		}
	}
	debs, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if err := run(ctx, nil, nil, "dpkg-deb", "--extract", deb, dir); err != nil {
			return fmt.Errorf("cannot unpack %s: %w", deb, err)
		}
	}
	return os.RemoveAll(archives)
}

// Use puts the programs and libraries of dir into this process's environment, after the
// machine's own.
func Use(dir string) error {
	path, libraries := os.Getenv("PATH"), os.Getenv("LD_LIBRARY_PATH")
	for _, bin := range []string{"usr/sbin", "usr/bin", "sbin", "bin"} {
		path += ":" + filepath.Join(dir, bin)
	}
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	libraries = strings.TrimPrefix(libraries+":"+filepath.Join(dir, "usr/lib", triplet)+":"+
		filepath.Join(dir, "lib", triplet), ":")
	set := map[string]string{"PATH": path, "LD_LIBRARY_PATH": libraries}
	if scripts := filepath.Join(dir, "usr/share/debootstrap"); exists(scripts) {
		set["DEBOOTSTRAP_DIR"] = scripts
	}
	for name, value := range set {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Missing returns those of the programs that are not in PATH.
func Missing(programs ...string) (missing []string) {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	return missing
}
