// Package beacon has the values that a worker registers with at a web's TSA: the address, the
// keys and the tags. It needs no function of Linux, because workers on other systems register
// in the same way. It opens no file and no connection.
package beacon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
)

// hostName leaves the length to maxHostName, because compiling a counted repetition costs
// every hook half a millisecond.
var hostName = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

const maxHostName = 253

// HostPort returns the address host:port in the form that Concourse reads, with IPv6 in
// brackets.
func HostPort(s string) (string, error) {
	h, p, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("%.100q is not host:port", s)
	}
	if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%.100q has no port between 1 and 65535", s)
	}
	a, err := netip.ParseAddr(h)
	// any text can be a zone
	if err == nil && a.Zone() != "" || err != nil && (len(h) > maxHostName || !hostName().MatchString(h)) {
		return "", fmt.Errorf("%.100q names no host", s)
	}
	return net.JoinHostPort(h, p), nil
}

// KeyLine returns an OpenSSH public key on one line, without comment.
func KeyLine(s string) (string, error) {
	if strings.ContainsAny(s, "\r\n") || len(s) > 16<<10 {
		return "", fmt.Errorf("want one OpenSSH line (ssh-rsa AAAA...)")
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(s))
	if err != nil || len(options) > 0 {
		return "", fmt.Errorf("%.40q is not an OpenSSH public key (ssh-rsa AAAA...)", s)
	}
	return string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(key))), nil
}

// maxWhy bounds the reason of a lost registration.
const maxWhy = 200

// RegistrationState names the worker's registration according to its log.
type RegistrationState string

// The states. Unknown also results for a registered worker with a log level above info,
// because the worker logs its registration at info.
const (
	Registered RegistrationState = "registered"
	Lost       RegistrationState = "lost"
	Unknown    RegistrationState = "unknown"
)

// Registration has a state and, if it is Lost, the worker's reason.
type Registration struct {
	State RegistrationState `json:"state"`
	Why   string            `json:"why,omitempty"`
}

const (
	registeredMessage = "worker.beacon-runner.beacon.registered"
	failedMessage     = "worker.beacon-runner.failed"
)

// ParseRegistration reads log lines of the worker, which are JSON objects with a dotted
// path as message. The last relevant line decides.
func ParseRegistration(out []byte) Registration {
	reg := Registration{State: Unknown}
	for line := range bytes.Lines(out) {
		var entry struct {
			Message string `json:"message"`
			Data    struct {
				Error any `json:"error"`
			} `json:"data"`
		}
		if json.Unmarshal(line, &entry) != nil {
			continue
		}
		switch entry.Message {
		case registeredMessage:
			reg = Registration{State: Registered}
		case failedMessage:
			reg = Registration{State: Lost}
			if text, ok := entry.Data.Error.(string); ok {
				reg.Why = sanitize.Line(strings.Join(strings.Fields(text), " "), maxWhy)
			}
		}
	}
	return reg
}
