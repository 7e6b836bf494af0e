package relation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// tracingRequest requests the one protocol that Concourse speaks, and otlp_http. The URL of
// otlp_grpc does not show whether it uses TLS (canonical/tempo-operators#241). The URL of
// otlp_http, which the same server provides, shows it.
const tracingRequest = `["otlp_grpc", "otlp_http"]`

// TracingRequest returns the application's databag of tracing (library
// tempo_coordinator_k8s tracing v0, requirer).
func TracingRequest() map[string]string { return map[string]string{"receivers": tracingRequest} }

// TraceReceiver names a server that takes traces as OTLP over gRPC.
type TraceReceiver struct {
	Address string // host:port, IPv6 in brackets
	TLS     bool
}

// maxReceivers exceeds the length of any list of receivers in JSON.
const maxReceivers = 16 << 10

// ParseTracing reads the databag of tracing's provider (its application). It returns false
// without a problem if the provider does not offer the protocol yet.
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
		case one.Protocol.Name == "otlp_grpc" && !ok: // the first of several, like the library
			host, port, err := hostPort(one.URL, 0)
			if err != nil { // the text is not quoted: a URL may contain a password
				return r, false, errors.New("receivers: the url of otlp_grpc is not host:port without scheme, " +
					"user and path")
			}
			r.Address, ok = net.JoinHostPort(host, strconv.Itoa(port)), true
		}
	}
	r.TLS = ok && tls
	return r, ok, nil
}
