package role

import (
	"cmp"
	"errors"
	"io/fs"
	"os"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// WorkerName returns the worker's name at the web.
func WorkerName(kept, unit, id string) string { return cmp.Or(kept, concourse.WorkerName(unit, id)) }

// ProxyOf returns the operator's proxies. Without them it returns the model's.
func ProxyOf(facts model.Facts, cfg config.Config) resource.Proxies {
	p := resource.Proxies{HTTP: cfg.HTTPProxy, HTTPS: cfg.HTTPSProxy, No: cfg.NoProxy}
	if p == (resource.Proxies{}) {
		p = resource.Proxies{HTTP: facts.Proxy.HTTP, HTTPS: facts.Proxy.HTTPS, No: facts.Proxy.NoProxy}
	}
	return p
}

// Attached reports whether a release was attached. An empty file means that none was. The
// path is Juju's and not below the root.
func Attached(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Size() > 0
}

// LandedFile exists if the operator landed this worker. Then hooks do not start it.
const LandedFile = wellknown.StateDir + "/landed"

// ReadOptional returns a file as text, "" if it is missing.
func ReadOptional(r host.Root, path string) (string, error) {
	data, err := r.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(data), jujuerrors.Annotatef(err, "cannot observe %s", path)
}
