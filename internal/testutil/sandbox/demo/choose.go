package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
)

// releaseEnv names a Concourse release: a published tarball or its unpacked folder.
const releaseEnv = "CONCOURSE_RELEASE"

// space is the free space that the CI needs: 10 GiB in its machine, and the copy of the
// release and the Debian.
const space = 14 << 30

// asRoot is the command that runs the demo as root.
const asRoot = "root: sudo env \"PATH=$PATH\" make demo"

// chosen holds the parts of a CI that this machine can run.
type chosen struct {
	release string // tarball or folder
	tmp     string // a folder on a disk with enough space
}

// choose returns the parts of a CI, or the reason why this machine cannot
// run one, as the end of a sentence.
func (d *demo) choose() (c chosen, why string, err error) {
	if why := d.cannotBoot(); why != "" {
		return c, why, nil
	}
	if c.tmp = folderWithSpace(); c.tmp == "" {
		return c, fmt.Sprintf("needs %d GiB in a folder on a disk: set TMPDIR to one", space>>30), nil
	}
	if c.release = os.Getenv(releaseEnv); c.release != "" {
		if _, err := os.Stat(c.release); err != nil {
			return c, "", fmt.Errorf("cannot use %s: %w", releaseEnv, err)
		}
		if c.release, err = filepath.Abs(c.release); err != nil {
			return c, "", err
		}
		return c, "", nil
	}
	if c.release, err = d.obtainRelease(); err != nil {
		if cause := context.Cause(d.ctx); cause != nil {
			return c, "", cause
		}
		return c, fmt.Sprintf("needs a Concourse release: set %s to a downloaded concourse-%s-linux-%s.tgz; %v",
			releaseEnv, release.TestedVersion, runtime.GOARCH, err), nil
	}
	return c, "", nil
}

// cannotBoot returns the reason why this machine cannot boot a machine in namespaces.
func (d *demo) cannotBoot() string {
	switch {
	case d.hooksOnly:
		return "is left out with -hooks"
	case os.Geteuid() != 0:
		return "needs " + asRoot
	case len(debian.Missing("apt-get", "dpkg-deb")) > 0:
		return "needs Debian or Ubuntu, whose packages its machine gets"
	}
	if err := debian.Run(d.ctx, "unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "true"); err != nil {
		return fmt.Sprintf("needs namespaces, which this machine refuses (%s)", firstLine(err.Error()))
	}
	return ""
}

// folderWithSpace returns a folder for temporary files with enough space that is on a disk,
// or "".
func folderWithSpace() string {
	for _, dir := range []string{os.TempDir(), "/var/tmp"} {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		if err == nil && st.Type != unix.TMPFS_MAGIC && st.Type != unix.OVERLAYFS_SUPER_MAGIC &&
			st.Bavail*uint64(st.Bsize) >= space {
			return dir
		}
	}
	return ""
}

// obtainRelease downloads the release that the charm was tested with, as a machine does: with
// its checksum, and once. It stays in the user's cache.
func (d *demo) obtainRelease() (path string, err error) {
	cache, err := debian.CacheFolder()
	if err != nil {
		return "", err
	}
	h := host.New(filepath.Join(cache, "release"))
	r := release.Install{Release: release.Release{Version: release.TestedVersion, Arch: runtime.GOARCH,
		Mirror: os.Getenv("CONCOURSE_RELEASE_MIRROR"),
		Proxy:  resource.Proxies{HTTP: env("http_proxy"), HTTPS: env("https_proxy"), No: env("no_proxy")}}}
	what := fmt.Sprintf("look for Concourse %s (%s is not set)", release.TestedVersion, releaseEnv)
	err = d.screen.work(what, func(report func(string)) error {
		_, err := plan.Plan{{Op: "download Concourse " + release.TestedVersion, Why: "missing",
			Do: func(ctx context.Context) error {
				tarball, _, err := r.Obtain(ctx, h)
				path = h.Path(tarball)
				return err
			}}}.Apply(d.ctx, report)
		return err
	})
	var step *plan.StepError
	if errors.As(err, &step) {
		err = step.Err
	}
	return path, err
}

// env returns a variable that programs read in both cases.
func env(name string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	upper := map[string]string{"http_proxy": "HTTP_PROXY", "https_proxy": "HTTPS_PROXY", "no_proxy": "NO_PROXY"}
	return os.Getenv(upper[name])
}
