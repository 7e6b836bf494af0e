package predecessor

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/concourse"
)

// workerNameFile has the name under which the Python charm's worker registered:
// its machine's. The worker goes on under that name, so the web finds its
// volumes and running tasks again, and no worker that never comes back stays in
// the web's list. It lies in the work folder for the reason workerIDFile does.
const workerNameFile = ".worker-name"

var machineName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$`)

// WorkerName is the name that the worker of a work folder keeps instead of
// WorkerName: the one in the folder's own file, or the machine's as long as the
// environment is still the Python charm's. ok is false for every other worker.
func WorkerName(root host.Root, workDir string) (name string, ok bool) {
	if name, err := root.ReadText(path.Join(workDir, workerNameFile)); err == nil {
		return name, machineName.MatchString(name)
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
	// What the worker asked the kernel for; a root that is no running machine
	// has the file of its name only.
	for _, p := range []string{"/proc/sys/kernel/hostname", "/etc/hostname"} {
		if name, err := root.ReadText(p); err == nil && machineName.MatchString(name) {
			return name, true
		}
	}
	return "", false
}

// used reports whether a worker has used the work folder.
func used(root host.Root, workDir string) bool {
	entries, err := root.ReadDir(workDir)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), ".") })
}

// KeepName is the file that keeps the name. It has to be there before the
// environment is written, which is what the name was found by.
func KeepName(workDir, name string) resource.File {
	return resource.File{Path: path.Join(workDir, workerNameFile), Data: []byte(name + "\n"), Mode: 0o644}
}
