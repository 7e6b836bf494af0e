package role

import (
	"cmp"
	"errors"
	"io/fs"
	"os"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/concourse"
)

// WorkerName is the one that the web knows the worker by.
func WorkerName(kept, unit, id string) string { return cmp.Or(kept, concourse.WorkerName(unit, id)) }

// ProxyOf is the operator's proxies, else the model's.
func ProxyOf(facts model.Facts, cfg config.Config) resource.Proxies {
	p := resource.Proxies{HTTP: cfg.HTTPProxy, HTTPS: cfg.HTTPSProxy, No: cfg.NoProxy}
	if p == (resource.Proxies{}) {
		p = resource.Proxies{HTTP: facts.Proxy.HTTP, HTTPS: facts.Proxy.HTTPS, No: facts.Proxy.NoProxy}
	}
	return p
}

// Attached reports whether a release was attached: an empty file is how a
// store says that none was. The path is Juju's own, not below the root.
func Attached(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Size() > 0
}

// LandedFile says that the operator landed this worker: hooks leave it down.
const LandedFile = model.StateDir + "/landed"

// ReadOptional is a file as text, "" where there is none.
func ReadOptional(r host.Root, path string) (string, error) {
	data, err := r.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(data), jujuerrors.Annotatef(err, "cannot observe %s", path)
}
