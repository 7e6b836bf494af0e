package role

import (
	"fmt"
	"slices"
	"strings"

	"concourse-ci-machine/internal/charm/juju"
	"concourse-ci-machine/internal/charm/relation"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
)

// Tracing returns the receiver of the relation tracing for a process, and warnings about it.
// The operator's setting has priority: a variable in env, which is the current environment
// of the process, or a flag. service is the name of the process in traces.
func Tracing(o Observed, env []byte, flags []string, service string) (t concourse.Tracing, causes []status.Cause) {
	l := o.Facts.Watchers.Tracing
	if l == nil {
		return t, nil
	}
	remark := func(format string, args ...any) (concourse.Tracing, []status.Cause) {
		return t, []status.Cause{{Kind: status.Active, Text: fmt.Sprintf("tracing: "+format, args...)}}
	}
	receiver, ok, problem := relation.ParseTracing(l.Remote)
	flag := slices.IndexFunc(flags, tracingFlag)
	switch own := concourse.OwnTracing(env); {
	case flag >= 0:
		name, _, _ := strings.Cut(flags[flag], "=")
		return remark("extra-web-flags has %s, which wins; take it out to send traces to %s", name, l.App)
	case own != "":
		return remark("the file of the environment has %s of your own, which wins; take it out to send traces to %s",
			own, l.App)
	case problem != nil:
		return remark("%s; no traces are sent until %s mends it, or you run juju remove-relation %s:tracing %s",
			problem, l.App, juju.AppOf(o.Facts.Unit), l.App)
	case !ok:
		return remark("%s offers no otlp_grpc yet, so no traces are sent; see juju status %s", l.App, l.App)
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
