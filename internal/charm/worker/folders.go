package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/oci"
)

// Srv holds the folders that tasks see at the same path.
const Srv = "/srv"

// SrvFolders lists what tasks may get. No folder is looked into: it may be a
// mount whose server is gone. A machine without /srv has none (D53).
func SrvFolders(r host.Root) ([]string, error) {
	entries, err := r.ReadDir(Srv)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, jujuerrors.Annotatef(err, "cannot list %s", Srv)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && oci.FolderNameProblem(e.Name()) == "" {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// FoldersOfTasks are those of /srv that the options give to tasks.
func FoldersOfTasks(c config.Config, names []string) (given []string) {
	for _, name := range names {
		if !c.NoSrvFolders && (len(c.SrvFolders) == 0 || slices.Contains(c.SrvFolders, name)) {
			given = append(given, name)
		}
	}
	return given
}

// folderSuffix is the part of the ready status that counts the folders.
func folderSuffix(o Observed) string {
	ro, rw := 0, 0
	for _, name := range FoldersOfTasks(o.Config, o.Folders) {
		if strings.HasSuffix(name, "_writable") || strings.HasSuffix(name, "_rw") {
			rw++
		} else {
			ro++
		}
	}
	if ro+rw == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d folders: %d RO, %d RW)", ro+rw, ro, rw)
}

// NVIDIADevices reads the names in NVIDIA's CDI spec.
func NVIDIADevices(r host.Root) ([]string, error) {
	data, err := r.ReadFile(gpu.NVIDIASpec)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, jujuerrors.Annotatef(err, "cannot read %s", gpu.NVIDIASpec)
	}
	var spec struct {
		Devices []struct{ Name string }
	}
	if json.Unmarshal(data, &spec) != nil {
		return []string{}, nil // it describes nothing, and the status says how to make it anew
	}
	names := []string{}
	for _, d := range spec.Devices {
		names = append(names, d.Name)
	}
	return names, nil
}
