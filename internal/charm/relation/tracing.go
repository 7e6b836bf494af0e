package relation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// tracingRequest asks for the one protocol that Concourse speaks, and for otlp_http, as a
// receiver of otlp_grpc does not say whether it speaks TLS (canonical/tempo-operators#241)
// and that one, which the same server has, does.
const tracingRequest = `["otlp_grpc", "otlp_http"]`

// TracingRequest is the application's bag of tracing (library tempo_coordinator_k8s
// tracing v0, requirer).
func TracingRequest() map[string]string { return map[string]string{"receivers": tracingRequest} }

// TraceReceiver takes traces by OTLP over gRPC.
type TraceReceiver struct {
	Address string // host:port, IPv6 in brackets
	TLS     bool
}

// maxReceivers is longer than any list of them in JSON.
const maxReceivers = 16 << 10

// ParseTracing reads the application's bag of tracing's provider. ok without a receiver
// and without a problem is a provider that has none of the protocol yet.
func ParseTracing(app map[string]string) (r TraceReceiver, ok bool, problem error) {
	text := app["receivers"]
	if text == "" {
		return r, false, nil
	}
	var all []struct {
		Protocol struct {
			Name string `json:"name"`
		} `json:"protocol"`
		URL string `json:"url"`
	}
	if len(text) > maxReceivers {
		return r, false, fmt.Errorf("receivers: it is longer than %d bytes", maxReceivers)
	}
	if json.Unmarshal([]byte(text), &all) != nil {
		return r, false, errors.New("receivers: want a JSON list of receivers")
	}
	tls := false
	for _, one := range all {
		switch {
		case one.Protocol.Name == "otlp_http":
			tls = strings.HasPrefix(one.URL, "https://")
		case one.Protocol.Name == "otlp_grpc" && !ok: // of several the first, as the library has it
			host, port, err := hostPort(one.URL, 0)
			if err != nil { // without the text: a URL may have a password
				return r, false, errors.New("receivers: the url of otlp_grpc is not host:port without scheme, user and path")
			}
			r.Address, ok = net.JoinHostPort(host, strconv.Itoa(port)), true
		}
	}
	r.TLS = ok && tls
	return r, ok, nil
}
