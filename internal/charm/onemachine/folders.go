package onemachine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/engines"
)

// homeNames lists the files and folders of the CI in HomeDir. Others belong to the operator.
var homeNames = []string{path.Base(release.Dir), path.Base(concourse.WorkDir), "units", ".install.lock",
	path.Base(concourse.HomeWebFiles().Env()), path.Base(concourse.HomeWebFiles().KeyDir())}

// wholeFolders belong to the CI alone: the hook remove deletes them with all content, except
// gpukit's records.
var wholeFolders = []string{path.Dir(role.BinDir), concourse.ConfigDir, wellknown.StateDir}

// sharedFolders may belong to other programs, too. Purge removes those that Up made if they
// are empty. Inner ones come first.
var sharedFolders = []string{"/etc/cdi", path.Dir(noMainCluster), path.Dir(path.Dir(noMainCluster)), clustersDir,
	release.HomeDir}

// recordFolders records the sharedFolders that Up will make.
func (m *Model) recordFolders() {
	for _, dir := range sharedFolders {
		if !m.Host.Exists(dir) {
			m.state.Folders = append(m.state.Folders, dir)
		}
	}
}

// noFolders removes the folders that recordFolders recorded, if they are empty.
func (m *Model) noFolders() (all []plan.Resource) {
	for _, dir := range m.state.Folders {
		all = append(all, noEmptyFolder{dir})
	}
	return all
}

// refuseFolders returns an error if a folder of the CI has files of others, because Purge
// could not tell them apart. It removes what a killed Up left.
func (m *Machine) refuseFolders() error {
	r := m.Model.Host.Root
	if err := r.Remove(model.MachineFile); err != nil { // temporary files of it: the file does not exist
		return fmt.Errorf("cannot set up this machine: %w", err)
	}
	found, err := foreignHome(r)
	for _, dir := range wholeFolders {
		if found == "" && err == nil {
			found, err = firstIn(r, dir)
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("cannot set up this machine: %w", err)
	case found != "":
		return fmt.Errorf("cannot set up this machine: %s is in a folder of the CI and not from this CI; "+
			"move it away, because purge removes the folder", found)
	case r.Exists(oci.DefaultConfig):
		return fmt.Errorf("cannot set up this machine: gpukit leases its GPUs (%s); first end that for each engine: "+
			"sudo gpukit runtime configure ENGINE --shared", oci.DefaultConfig)
	}
	return nil
}

// foreignHome returns a file or folder in HomeDir that is not the CI's, or "". Releases are
// there from the beginning. So other names without them belong to another Concourse. Empty
// folders do not matter: a purge leaves them if a file system was mounted there.
func foreignHome(r host.Root) (string, error) {
	entries, err := r.ReadDir(release.HomeDir)
	if errors.Is(err, fs.ErrNotExist) || r.Exists(release.SharedMarker) {
		return "", nil
	}
	for _, e := range entries {
		if e.Name() == "lost+found" || slices.Contains(homeNames, e.Name()) && r.Exists(release.Dir) {
			continue
		}
		dir := path.Join(release.HomeDir, e.Name())
		if found, err := firstIn(r, dir); err != nil || found != "" {
			return dir, err
		}
	}
	return "", err
}

// firstIn returns the first file in a folder, or "". Empty folders and gpukit's records do not
// matter.
func firstIn(r host.Root, dir string) (found string, err error) {
	err = filepath.WalkDir(r.Path(dir), func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case r.Rel(p) == engines.Records:
			return filepath.SkipDir
		case !e.IsDir():
			found = r.Rel(p)
			return filepath.SkipAll
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return found, err
}

// noHome removes the CI's files in HomeDir. Storage that several machines share stays.
type noHome struct{}

// Diff implements plan.Resource.
func (noHome) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if !h.Exists(release.HomeDir) || h.Exists(release.SharedMarker) {
		return nil, nil
	}
	var mounted []string
	return plan.Plan{{Op: "remove the CI's files in " + release.HomeDir, Why: purged, Do: func(context.Context) error {
		for _, name := range homeNames {
			p := path.Join(release.HomeDir, name)
			found, err := resource.RemoveTree(h.Root, p)
			if err == nil && len(found) == 0 {
				err = h.Remove(p) // and temporary files
			}
			if err != nil {
				return err
			}
			mounted = append(mounted, found...)
		}
		return nil
	}}, {Op: "remove all of " + release.HomeDir, Why: purged, Tolerate: true, Do: func(context.Context) error {
		return reportRest(h.Root, mounted)
	}}}, nil
}

// reportRest returns an error that names a file system on mounted or a file of others in
// HomeDir.
func reportRest(r host.Root, mounted []string) error {
	if len(mounted) > 0 {
		return fmt.Errorf("a file system is mounted on %s; it stays", mounted[0])
	}
	found, err := r.ReadDir(release.HomeDir)
	for _, e := range found {
		if e.Name() != "lost+found" {
			return fmt.Errorf("%s is not from the CI; it stays", path.Join(release.HomeDir, e.Name()))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// noEmptyFolder removes a folder that has no content. A mount point stays.
type noEmptyFolder struct{ path string }

// Diff implements plan.Resource.
func (n noEmptyFolder) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if !h.Exists(n.path) {
		return nil, nil
	}
	return plan.Plan{{Op: "remove " + n.path + " if it is empty", Why: purged, Do: func(context.Context) error {
		if left, err := h.ReadDir(n.path); err != nil || len(left) > 0 {
			return err // another program uses it
		}
		if err := h.Remove(n.path); !errors.Is(err, syscall.EBUSY) {
			return err
		}
		return nil
	}}}, nil
}
