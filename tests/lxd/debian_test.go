//go:build e2e

package lxd

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"

	distro "github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
)

// needless is what no unit needs: there is no network in it, so no source of packages
// either.
var needless = []string{"etc/apt/sources.list", "etc/hostname", "var/cache/apt/archives/*.deb", "var/lib/apt/lists/*_*", "usr/share/locale/*", "usr/share/doc/*"}

// debianFiles are those beside what debootstrap makes. The images of Ubuntu have the
// container's name as the host's, too.
var debianFiles = map[string]string{
	"metadata.yaml": "architecture: " + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + `
creation_date: 1
properties: {os: debian}
templates: {/etc/hostname: {when: [create, copy], template: hostname.tpl}}
`,
	"templates/hostname.tpl": "{{ container.name }}\n",
	"rootfs/etc/machine-id":  "",
}

// series is what the units report they are. A Debian reports that it is Ubuntu 24.04, the
// release that AMD has packages for; or a named Ubuntu.
func series() (codename string, files map[string]string, err error) {
	files = maps.Clone(debianFiles)
	_, codename, err = distro.Named()
	if codename == "" {
		codename = "noble"
		files["rootfs/usr/lib/os-release"] = "ID=ubuntu\nVERSION_ID=\"24.04\"\nVERSION_CODENAME=noble\nPRETTY_NAME=\"a Debian that says it is Ubuntu 24.04\"\n"
	}
	if codename == "resolute" {
		// From systemd 258 on it fails in unprivileged containers (systemd#39036, lxd#16860);
		// an empty file masks it.
		files["rootfs/etc/systemd/system/console-getty.service"] = ""
	}
	return codename, files, err
}

// debian is an LXD image, one tar, of a Debian with systemd. It is made once and
// kept in the user's cache. What makes it ends with the context, or with the test
// program.
func debian(ctx context.Context) (string, error) {
	base, err := distro.Base(ctx)
	if err != nil {
		return "", err
	}
	_, files, err := series()
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Append(nil, filepath.Base(base), needless, files)) // maps are printed in order
	return distro.Cached(fmt.Sprintf("lxd-%x.tar", key[:6]), func(out *os.File) error {
		work, err := os.MkdirTemp("", "lxd-debian-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		if err := distro.Unpack(ctx, base, filepath.Join(work, "rootfs")); err != nil {
			return err
		}
		if err := furnish(work, files); err != nil {
			return err
		}
		return distro.Pack(ctx, out, work, "metadata.yaml", "templates", "rootfs")
	})
}

// furnish makes the image of what debootstrap made.
func furnish(work string, files map[string]string) error {
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
	for path, text := range files {
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
