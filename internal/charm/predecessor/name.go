package predecessor

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// workerNameFile has the name of the Python charm's worker, which is the machine's name. The
// worker keeps that name, so that the web finds its volumes and running tasks again, and the
// web's list has no dead worker. The file is in the work folder for the same reason as
// concourse's workerIDFile.
const workerNameFile = ".worker-name"

var machineName = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$`)

// WorkerName returns the name that the worker of a work folder keeps. It is the name in
// workerNameFile. While the environment is the Python charm's, it is the machine's name. ok
// is false for all other workers.
func WorkerName(root host.Root, workDir string) (name string, ok bool) {
	if name, err := root.ReadText(path.Join(workDir, workerNameFile)); err == nil {
		return name, machineName().MatchString(name)
	}
	data, err := root.ReadFile(concourse.EnvFile)
	if err != nil {
		return "", false
	}
	env := concourse.EnvValues(data)
	_, procs := env[predecessorsWorker]
	_, named := env["CONCOURSE_NAME"]
	if !procs || named || env["CONCOURSE_WORK_DIR"] != workDir || !used(root, workDir) {
		return "", false
	}
	// The worker got its name from the kernel. A root of another machine has only the file.
	for _, p := range []string{"/proc/sys/kernel/hostname", "/etc/hostname"} {
		if name, err := root.ReadText(p); err == nil && machineName().MatchString(name) {
			return name, true
		}
	}
	return "", false
}

// used reports whether a worker has used the work folder.
func used(root host.Root, workDir string) bool {
	entries, err := root.ReadDir(workDir)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return !strings.HasPrefix(e.Name(), ".")
	})
}

// NameFile returns workerNameFile. It must be written before the environment, because the
// name is found through the old environment.
func NameFile(workDir, name string) resource.File {
	return resource.File{Path: path.Join(workDir, workerNameFile), Data: []byte(name + "\n"), Mode: 0o644}
}
