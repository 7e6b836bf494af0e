package concourse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/templates"
)

// workerIDFile returns the path of the worker's id. The file is in the work folder, so that
// both are wiped together. A worker that registers under its old name without its volumes
// looks healthy and fails every task. So a wiped work folder must give a new name.
func workerIDFile(workDir string) string { return workDir + "/.worker-id" }

var workerID = lazyregexp.New(`^[0-9a-f]{8}$`)

// ReadWorkerID returns the id of the work folder. ok is false if the id is missing or
// invalid; then WorkerID needs a new one.
func ReadWorkerID(root host.Root, workDir string) (id string, ok bool) {
	id, err := root.ReadText(workerIDFile(workDir))
	if err != nil || !workerID().MatchString(id) {
		return "", false
	}
	return id, true
}

// WorkerID returns the file with the id (8 hex digits).
func WorkerID(workDir, id string) resource.File {
	return resource.File{Path: workerIDFile(workDir), Data: []byte(id + "\n"), Mode: 0o644}
}

// WorkerName returns the name that the worker registers with: gpu-3-0badcafe for unit gpu/3
// and id 0badcafe.
func WorkerName(unit, id string) string { return strings.ReplaceAll(unit, "/", "-") + "-" + id }

// WorkFolder returns the folder of a worker's volumes. It is never on shared storage,
// because two workers would remove each other's volumes.
func WorkFolder(shared bool) string {
	if shared {
		return "/var/lib/concourse-work"
	}
	return WorkDir
}

// WorkerUnit returns the worker's systemd unit.
func WorkerUnit() (resource.File, error) {
	data, err := templates.Render(Unit, map[string]string{
		"Home":        release.HomeDir,
		"Env":         EnvFile,
		"OperatorEnv": OperatorEnvFile,
		"Concourse":   release.BinDir + "/concourse",
	})
	return resource.File{Path: UnitFile, Data: data, Mode: 0o644}, err
}

// ContainerdLauncher returns the script that the worker runs as containerd if
// WorkerConfig.Wrapped is set.
func ContainerdLauncher() (resource.File, error) {
	data, err := templates.Render("containerd-launcher.tmpl", map[string]string{
		"RuntimeDir": runtimeDir,
		"Containerd": realContainerd,
	})
	return resource.File{Path: Launcher, Data: data, Mode: 0o755}, err
}

// OperatorEnv creates OperatorEnvFile once, empty, and never changes it.
type OperatorEnv struct{}

// Diff implements plan.Resource.
func (OperatorEnv) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if _, err := h.Lstat(OperatorEnvFile); err == nil {
		return nil, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot compare %s: %w", OperatorEnvFile, err)
	}
	return plan.Plan{{Op: "make " + OperatorEnvFile, Why: "missing", Do: func(context.Context) error {
		return h.WriteFile(OperatorEnvFile, nil, 0o644)
	}}}, nil
}

// Folders returns the directories of a worker, without ReleaseFolders.
func Folders(shared bool) []plan.Resource {
	return []plan.Resource{
		resource.Dir{Path: WorkFolder(shared), Mode: 0o755},
		resource.Dir{Path: ConfigDir, Mode: 0o755, Owner: "root"}, // the wrapper checks who can write there
		resource.Dir{Path: KeyDir, Mode: 0o700},
		resource.Dir{Path: runtimeDir, Mode: 0o755},
	}
}
