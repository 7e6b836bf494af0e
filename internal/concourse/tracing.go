package concourse

import (
	"strings"
)

// Tracing describes the destination of a process's traces, sent by OTLP over gRPC, and
// their labels. Without an Address the charm configures no traces.
type Tracing struct {
	Address string // host:port
	TLS     bool   // the certificate must be trusted by the system, because Concourse accepts no other CA
	Service string // name of the process

	Model, ModelUUID, Unit string // from Juju; metrics have the same labels
}

const (
	tracingPrefix     = "CONCOURSE_TRACING_"
	tracingHeader     = tracingPrefix + "OTLP_HEADER" // extends any address, including one from the operator
	tracingAttributes = tracingPrefix + "ATTRIBUTE"
	// tracingMark begins the attributes that the charm writes. An operator who sends traces
	// elsewhere has the same variables in the same file, and keeps them.
	tracingMark = "juju_charm:concourse-ci-machine"
)

// tracingVariables has the environment of Tracing for webs and workers.
var tracingVariables = envTable[Tracing]{
	{tracingPrefix + "OTLP_ADDRESS", func(t Tracing) string { return t.Address }},
	{tracingPrefix + "OTLP_USE_TLS", func(t Tracing) string { return when(t.TLS, "true") }},
	{tracingPrefix + "SERVICE_NAME", func(t Tracing) string { return t.Service }},
	{tracingAttributes, Tracing.attributes},
}

func (t Tracing) attributes() string {
	if t.Address == "" {
		return ""
	}
	app, _, _ := strings.Cut(t.Unit, "/")
	return strings.Join([]string{tracingMark, "juju_model:" + t.Model, "juju_model_uuid:" + t.ModelUUID,
		"juju_application:" + app, "juju_unit:" + t.Unit}, ",")
}

// ownsTracing reports whether the charm wrote a variable of Tracing in this file.
func ownsTracing(file []byte, key string) bool {
	return tracingVariables.owns(key) && strings.HasPrefix(EnvValues(file)[tracingAttributes], tracingMark)
}

// OwnTracing returns a variable with which the operator configures traces in an environment
// file, or "".
func OwnTracing(file []byte) string {
	for _, a := range parseEnv(file) {
		if strings.HasPrefix(a.key, tracingPrefix) && a.key != tracingHeader && !ownsTracing(file, a.key) {
			return a.key
		}
	}
	return ""
}
