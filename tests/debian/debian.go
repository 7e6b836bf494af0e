package debian

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// packages are those beside minbase: systemd for what boots it, udev for its
// udevadm.
const packages = "systemd-sysv,udev,ca-certificates"

// makeBase prints the tar. It is made in memory: dpkg syncs every file, and what
// ends it leaves nothing.
const makeBase = `mount -t tmpfs -o mode=755 tmpfs "$1" &&
debootstrap --variant=minbase --include="$2" "$3" "$1" "$4" >&2 &&
tar --numeric-owner --xattrs --xattrs-include='*' -C "$1" -cf - .`

// Base is the path of the tar, made where there is none in the cache. It needs
// root and debootstrap. What makes it ends with the context, or with the program.
func Base(ctx context.Context) (string, error) {
	mirror, suite, err := Mirror()
	if err != nil {
		return "", err
	}
	key := sha256.Sum256([]byte(packages + makeBase))
	return Cached(fmt.Sprintf("debian-%s-%s-%x.tar", suite, runtime.GOARCH, key[:6]), func(out *os.File) error {
		dir, err := os.MkdirTemp("", "debian-")
		if err != nil {
			return err
		}
		defer os.Remove(dir) // the tmpfs on it was the namespace's
		if err := run(ctx, out, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "--mount-proc",
			"sh", "-c", makeBase, "sh", dir, packages, suite, mirror); err != nil {
			return fmt.Errorf("cannot make a Debian of %s %s: %w", mirror, suite, err)
		}
		return nil
	})
}

// Pack writes a tar of the named parts of dir.
func Pack(ctx context.Context, out *os.File, dir string, names ...string) error {
	argv := append([]string{"tar", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-C", dir, "-cf", "-"}, names...)
	if err := run(ctx, out, argv...); err != nil {
		return fmt.Errorf("cannot pack %s: %w", dir, err)
	}
	return nil
}

// Unpack makes dir and unpacks a tar into it.
func Unpack(ctx context.Context, file, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := run(ctx, nil, "tar", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-C", dir, "-xpf", file); err != nil {
		return fmt.Errorf("cannot unpack %s: %w", file, err)
	}
	return nil
}

// run ends what it runs with the context, or with this program.
func run(ctx context.Context, out *os.File, argv ...string) error {
	runtime.LockOSThread() // Pdeathsig looks at the thread
	defer runtime.UnlockOSThread()
	var said bytes.Buffer
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Stderr = &said
	if out != nil { // a nil *os.File is no nil io.Writer
		c.Stdout = out
	}
	if err := c.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, said.Bytes())
	}
	return nil
}

// Mirror is this machine's own, and its release, as apt knows them.
func Mirror() (uri, suite string, err error) {
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
