package concourse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/concourse/release"
	"concourse-ci-machine/templates"
)

// WorkerUnit is the systemd unit of the worker.
func WorkerUnit() (resource.File, error) {
	data, err := templates.Render(Unit, map[string]string{
		"Home":        release.HomeDir,
		"Env":         EnvFile,
		"OperatorEnv": OperatorEnvFile,
		"Concourse":   release.BinDir + "/concourse",
	})
	return resource.File{Path: UnitFile, Data: data, Mode: 0o644}, err
}

// ContainerdLauncher is the script that WorkerConfig.Wrapped makes the worker
// run as its containerd.
func ContainerdLauncher() (resource.File, error) {
	data, err := templates.Render("containerd-launcher.tmpl", map[string]string{
		"RuntimeDir": runtimeDir,
		"Containerd": realContainerd,
	})
	return resource.File{Path: Launcher, Data: data, Mode: 0o755}, err
}

// OperatorEnv is OperatorEnvFile: made once, empty, and never touched again.
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

// Folders are the directories of a worker, beside ReleaseFolders.
func Folders(shared bool) []plan.Resource {
	return []plan.Resource{
		resource.Dir{Path: WorkFolder(shared), Mode: 0o755},
		resource.Dir{Path: ConfigDir, Mode: 0o755, Owner: "root"}, // the wrapper looks who could write there
		resource.Dir{Path: KeyDir, Mode: 0o700},
		resource.Dir{Path: runtimeDir, Mode: 0o755},
	}
}
