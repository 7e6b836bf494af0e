package concourse

import (
	"regexp"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/resource"
)

// workerIDFile lies in the work folder, so that it shares its fate: a worker
// that comes back under its old name without its volumes shows as running and
// fails every task, so a wiped work folder has to mean a new name.
func workerIDFile(workDir string) string { return workDir + "/.worker-id" }

var workerID = regexp.MustCompile(`^[0-9a-f]{8}$`)

// ReadWorkerID returns the id of the work folder; ok is false where there is
// none that can be used, and a fresh one has to be given to WorkerID.
func ReadWorkerID(root host.Root, workDir string) (id string, ok bool) {
	id, err := root.ReadText(workerIDFile(workDir))
	if err != nil || !workerID.MatchString(id) {
		return "", false
	}
	return id, true
}

// WorkerID is the file that keeps the id (8 hex digits).
func WorkerID(workDir, id string) resource.File {
	return resource.File{Path: workerIDFile(workDir), Data: []byte(id + "\n"), Mode: 0o644}
}

// WorkerName is the name under which the worker registers: gpu/3 with the id
// 0badcafe is gpu-3-0badcafe.
func WorkerName(unit, id string) string { return strings.ReplaceAll(unit, "/", "-") + "-" + id }

// WorkFolder is where a worker has its volumes: never on shared storage, where
// two workers would take each other's away.
func WorkFolder(shared bool) string {
	if shared {
		return "/var/lib/concourse-work"
	}
	return WorkDir
}
