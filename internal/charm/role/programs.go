package role

import (
	"fmt"
	"os"
	"path/filepath"

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/concourse"
)

// Paths of the charm's installed programs. They are copies, because an upgrade of the charm
// replaces its folder while they run.
const (
	BinDir      = "/opt/concourse-ci-machine/bin"
	ExporterBin = BinDir + "/rocm-exporter"
	JobsBin     = BinDir + "/concourse-exporter"
	PebbleBin   = BinDir + "/pebble"
	// ToolsDir has programs for tasks, which find them at the same path.
	ToolsDir = "/opt/concourse-ci-machine/tools"
	// EnginesDir has the wrapper under the name that other engines call.
	EnginesDir = "/opt/concourse-ci-machine/engines"
)

// CharmFiles returns the programs that a unit of its role runs.
func CharmFiles(o Observed) []plan.Resource {
	copy := func(path, name string) resource.Copy {
		return resource.Copy{Path: path, From: filepath.Join(o.CharmDir, "bin", name), Mode: 0o755}
	}
	files := []plan.Resource{resource.Dir{Path: model.StateDir, Mode: 0o700}, copy(PebbleBin, "pebble")}
	if o.Facts.Role == model.WebRole {
		return append(files, copy(JobsBin, "concourse-exporter"))
	}
	return append(files, copy(ExporterBin, "rocm-exporter"), copy(concourse.Wrapper, "runc-amd-wrapper"))
}

// Programs identifies programs of the charm by size and time, without reading them.
func Programs(dir string, names ...string) (id []byte, err error) {
	for _, name := range names {
		st, err := os.Stat(filepath.Join(dir, "bin", name))
		if err != nil {
			return nil, err
		}
		id = fmt.Appendf(id, "%s %d %d\n", name, st.Size(), st.ModTime().UnixNano())
	}
	return id, nil
}
