package concourse

import (
	"strings"
)

// Tracing is where a process of Concourse sends its traces, by OTLP over gRPC, and whose
// they are there. Without an Address there are none of the charm's.
type Tracing struct {
	Address string // host:port
	TLS     bool   // with a certificate that the system knows: Concourse can be given no other CA
	Service string // the name of the process among others'

	Model, ModelUUID, Unit string // Juju's, by which metrics are labelled, too
}

const (
	tracingPrefix     = "CONCOURSE_TRACING_"
	tracingHeader     = tracingPrefix + "OTLP_HEADER" // adds to an address, whoever set that
	tracingAttributes = tracingPrefix + "ATTRIBUTE"
	// tracingMark begins the attributes that the charm writes. Whoever sends traces
	// elsewhere has the same variables in the same file, and keeps them.
	tracingMark = "juju_charm:concourse-ci-machine"
)

// tracingVariables is Tracing in the environment of the web and of a worker.
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
	return strings.Join([]string{tracingMark, "juju_model:" + t.Model, "juju_model_uuid:" + t.ModelUUID, "juju_application:" + app, "juju_unit:" + t.Unit}, ",")
}

// ownsTracing reports whether the charm wrote a variable of Tracing in this file.
func ownsTracing(file []byte, key string) bool {
	return tracingVariables.owns(key) && strings.HasPrefix(EnvValues(file)[tracingAttributes], tracingMark)
}

// OwnTracing is a variable in an environment file by which the operator has traces sent
// somewhere himself; "" where there is none.
func OwnTracing(file []byte) string {
	for _, a := range parseEnv(file) {
		if strings.HasPrefix(a.key, tracingPrefix) && a.key != tracingHeader && !ownsTracing(file, a.key) {
			return a.key
		}
	}
	return ""
}
