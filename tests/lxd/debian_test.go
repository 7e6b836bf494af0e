//go:build e2e

package lxd

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// debianPackages are what the image has beside debootstrap's minbase.
const debianPackages = "systemd-sysv,ca-certificates"

// needless is what no unit needs: there is no network in it, so no source of
// packages either.
var needless = []string{"etc/apt/sources.list", "etc/hostname", "var/cache/apt/archives/*.deb", "var/lib/apt/lists/*_*", "usr/share/locale/*", "usr/share/doc/*"}

// debianFiles are those beside what debootstrap makes. The system says that it
// is Ubuntu 24.04, the release that AMD has packages for, and its images have
// the container's name as the host's, too.
var debianFiles = map[string]string{
	"metadata.yaml": "architecture: " + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + `
creation_date: 1
properties: {os: debian}
templates: {/etc/hostname: {when: [create, copy], template: hostname.tpl}}
`,
	"templates/hostname.tpl":    "{{ container.name }}\n",
	"rootfs/etc/machine-id":     "",
	"rootfs/usr/lib/os-release": "ID=ubuntu\nVERSION_ID=\"24.04\"\nVERSION_CODENAME=noble\nPRETTY_NAME=\"a Debian that says it is Ubuntu 24.04\"\n",
}

// debian is an LXD image, one tar, of a Debian with systemd from this machine's
// own mirror. It is made once and kept in the user's cache. What makes it ends
// with the context, or with the test program.
func debian(ctx context.Context) (string, error) {
	mirror, suite, err := mirror()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "concourse-ci-machine-tests")
	made := sha256.Sum256(fmt.Append(nil, suite, debianPackages, needless, debianFiles)) // maps are printed in order
	file := filepath.Join(dir, fmt.Sprintf("lxd-%x.tar", made[:6]))
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp("", "lxd-debian-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	runtime.LockOSThread() // Pdeathsig looks at the thread
	defer runtime.UnlockOSThread()
	c := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "--mount-proc",
		"debootstrap", "--variant=minbase", "--include="+debianPackages, suite, filepath.Join(work, "rootfs"), mirror)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot make a Debian of %s %s: %w: %s", mirror, suite, err, out)
	}
	if err := furnish(work); err != nil {
		return "", err
	}
	unfinished := file + ".unfinished"
	if out, err := exec.Command("tar", "--numeric-owner", "--xattrs", "-C", work, "-cf", unfinished, "metadata.yaml", "templates", "rootfs").CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot pack the Debian: %w: %s", err, out)
	}
	return file, os.Rename(unfinished, file)
}

// furnish makes the image of what debootstrap made.
func furnish(work string) error {
	for _, glob := range needless {
		found, err := filepath.Glob(filepath.Join(work, "rootfs", glob))
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	for path, text := range debianFiles {
		path = filepath.Join(work, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// mirror is this machine's own, as apt knows it.
func mirror() (uri, suite string, err error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(release)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			suite = strings.Trim(v, `"`)
		}
	}
	out, err := exec.Command("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)", "Created-By: Packages").Output()
	if err != nil {
		return "", "", fmt.Errorf("cannot tell this machine's mirror: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == suite && f[2] == "main" && strings.HasPrefix(f[0], "http") {
			return f[0], suite, nil
		}
	}
	return "", "", fmt.Errorf("cannot tell this machine's mirror of %s: apt-get indextargets has none; run apt-get update", suite)
}
