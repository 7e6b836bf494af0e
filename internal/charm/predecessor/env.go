package predecessor

import (
	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/concourse"
)

// Encryption is the key that the web's database is encrypted with and
// the one before it, as the environment file has them, for an application that
// has no secret yet. The Python charm left the key there when its option was
// cleared, and its database stayed encrypted: without that key nobody could read
// it any more. "" where there is none.
func Encryption(root host.Root, p concourse.WebPaths) (key, old string) {
	data, err := root.ReadFile(p.Env())
	if err != nil {
		return "", ""
	}
	env := concourse.EnvValues(data)
	return env["CONCOURSE_ENCRYPTION_KEY"], env["CONCOURSE_OLD_ENCRYPTION_KEY"]
}

// What only the Python charm wrote into the environment of a worker and of a web.
const (
	predecessorsWorker = "CONCOURSE_WORKER_PROCS"
	predecessorsWeb    = "CONCOURSE_TSA_PUBLIC_KEY"
)

// WroteWorker reports whether a worker's environment file is the Python
// charm's.
func WroteWorker(env []byte) bool { return assigns(env, predecessorsWorker) }

// WroteWeb is that for a web's.
func WroteWeb(env []byte) bool { return assigns(env, predecessorsWeb) }

func assigns(env []byte, key string) bool {
	_, ok := concourse.EnvValues(env)[key]
	return ok
}
