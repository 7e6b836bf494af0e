package guest

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
)

// packageDir has the charm's files in the package concourse-ci-machine.
const packageDir = "/usr/lib/concourse-ci-machine"

// CopyHost copies the files of a fixture host to the machine's root: its hardware, with
// stand-ins for its first GPUs, but not its release. Call it before MakeRoot.
func (g *Guest) CopyHost(fixture, hostname string) error {
	if err := os.CopyFS(string(g.Root), os.DirFS(fixture)); err != nil {
		return err
	}
	for _, change := range []func(host.Root) error{
		RemoveFurtherGPUs,
		StandIns,
		func(r host.Root) error { return os.RemoveAll(r.Path("/etc")) },
		func(r host.Root) error { return r.WriteFile("/etc/hostname", []byte(hostname+"\n"), 0o644) },
		func(r host.Root) error { return r.MkdirAll("/root", 0o700) },
	} {
		if err := change(g.Root); err != nil {
			return err
		}
	}
	return nil
}

// AddPackage adds the files of the package concourse-ci-machine: the unpacked charm, and the
// service and the timer of the source tree. Call it between MakeRoot and Boot.
func (g *Guest) AddPackage(charm, source string) error {
	err := errors.Join(Command("cp", "-a", charm, g.Root.Path(packageDir)),
		os.Symlink(".."+packageDir[len("/usr"):]+"/dispatch", g.Root.Path("/usr/bin/concourse-ci-machine")))
	for _, name := range []string{"concourse-ci-machine.service", "concourse-ci-machine.timer"} {
		data, readErr := os.ReadFile(filepath.Join(source, "tools/packages/concourse-ci-machine", name))
		err = errors.Join(err, readErr, g.Root.WriteFile("/usr/lib/systemd/system/"+name, data, 0o644))
	}
	return err
}

// AddRepository makes a tar of debian.Repository the only source of packages. Call it between
// MakeRoot and Boot.
func (g *Guest) AddRepository(ctx context.Context, tar string) error {
	at := filepath.Join(g.Dir, "opt")
	if err := debian.Unpack(ctx, tar, at); err != nil {
		return err
	}
	return errors.Join(g.Bind(filepath.Join(at, "debs"), "/opt/debs"),
		g.Root.WriteFile("/etc/apt/sources.list", []byte("deb [trusted=yes] file:/opt/debs ./\n"), 0o644),
		os.RemoveAll(g.Root.Path("/etc/apt/sources.list.d")))
}
