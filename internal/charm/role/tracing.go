package role

import (
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// Tracing returns the receiver of the relation tracing for a process, and warnings about it.
// The operator's setting has priority: a variable in env, which is the current environment
// of the process, or a flag. service is the name of the process in traces.
func Tracing(o Observed, env []byte, flags []string, service string) (t concourse.Tracing, causes []status.Cause) {
	l := o.Facts.Watchers.Tracing
	if l == nil {
		return t, nil
	}
	warn := func(c status.Cause) (concourse.Tracing, []status.Cause) { return t, []status.Cause{c} }
	receiver, ok, problem := relation.ParseTracing(l.Remote)
	flag := slices.IndexFunc(flags, tracingFlag)
	switch own := concourse.OwnTracing(env); {
	case flag >= 0:
		name, _, _ := strings.Cut(flags[flag], "=")
		return warn(status.Warn("tracing: extra-web-flags has %s, which wins", name).
			Explain("remove it to send traces to %s", l.App))
	case own != "":
		return warn(status.Warn("tracing: your %s wins", own).
			Explain("remove it from the file of the environment to send traces to %s", l.App))
	case problem != nil:
		return warn(WrongData(status.Active, juju.AppOf(o.Facts.Unit), "tracing", l.App, problem))
	case !ok:
		return warn(status.Warn("tracing: %s offers no otlp_grpc yet, and no traces are sent", l.App).
			Run("juju status " + l.App))
	}
	return concourse.Tracing{Address: receiver.Address, TLS: receiver.TLS, Service: service,
		Model: o.Facts.Model, ModelUUID: o.Facts.ModelUUID, Unit: o.Facts.Unit}, nil
}

// tracingFlag reports whether a flag of concourse web sets a receiver of traces.
func tracingFlag(flag string) bool {
	for _, to := range []string{"otlp", "jaeger", "honeycomb", "stackdriver"} {
		if strings.HasPrefix(flag, "--tracing-"+to+"-") {
			return true
		}
	}
	return false
}
