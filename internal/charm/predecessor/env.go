package predecessor

import (
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// Encryption returns the current and the previous encryption key of the web's database from
// the environment file, or "". It is for an application that has no secret yet. The Python
// charm left the key in the file when its option was cleared, and the database stayed
// encrypted. Without the key its content would be lost.
func Encryption(root host.Root, p concourse.WebPaths) (key, old string) {
	data, err := root.ReadFile(p.Env())
	if err != nil {
		return "", ""
	}
	env := concourse.EnvValues(data)
	return env["CONCOURSE_ENCRYPTION_KEY"], env["CONCOURSE_OLD_ENCRYPTION_KEY"]
}

// Variables that only the Python charm wrote into the environment of a worker and of a web.
const (
	predecessorsWorker = "CONCOURSE_WORKER_PROCS"
	predecessorsWeb    = "CONCOURSE_TSA_PUBLIC_KEY"
)

// WroteWorker reports whether the Python charm wrote a worker's environment file.
func WroteWorker(env []byte) bool { return assigns(env, predecessorsWorker) }

// WroteWeb reports whether the Python charm wrote a web's environment file.
func WroteWeb(env []byte) bool { return assigns(env, predecessorsWeb) }

func assigns(env []byte, key string) bool {
	_, ok := concourse.EnvValues(env)[key]
	return ok
}
