package relation

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// TSADatabag returns a web unit's databag of concourse-ci_tsa. host has an optional port.
// publicKey is the key of the web's SSH server. version is "" if it is unknown. Host and
// key are published together, because workers need both. page is the URL of the fleet page,
// "" for none.
func TSADatabag(host, publicKey, version, page string) map[string]string {
	bag := map[string]string{}
	if publicKey = strings.TrimSpace(publicKey); host != "" && publicKey != "" {
		bag["tsa-host"], bag["tsa-public-key"] = withPort(host), publicKey
	}
	if version != "" {
		bag["concourse-version"] = version
	}
	if page != "" {
		bag["fleet-page"] = page
	}
	return bag
}

func withPort(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return joinHostPort(host, strconv.Itoa(wellknown.TSAPort))
}

// versionKey has the Concourse version of a worker, x.y.z.
const versionKey = "worker-version"

// WorkerDatabag returns a worker unit's databag: the public key that the web must authorize,
// the worker's name at the web, and its Concourse version.
func WorkerDatabag(publicKey, name, version string) map[string]string {
	return map[string]string{"worker-public-key": strings.TrimSpace(publicKey), "worker-name": name,
		versionKey: version}
}

// WorkerVersion returns the version in a worker's databag, "" if it is missing or too long.
// release.Fits checks the syntax.
func WorkerVersion(bag map[string]string) string {
	v := strings.TrimSpace(bag[versionKey])
	if len(v) > len("123456.123456.123456") {
		return ""
	}
	return v
}

// drainKey has the time that running tasks get when the worker leaves.
const drainKey = "drain-timeout"

// DrainDatabag returns the drain timeout of a worker. If the worker leaves, the web keeps the
// worker's key for that time.
func DrainDatabag(timeout time.Duration) map[string]string {
	return map[string]string{drainKey: timeout.String()}
}

// ParseDrain reads how long a worker may drain, at most most. It returns 0 if the key is
// missing, as from a worker of the Python charm.
func ParseDrain(bag map[string]string, most time.Duration) (time.Duration, []string) {
	s := strings.TrimSpace(bag[drainKey])
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > most {
		return 0, []string{fmt.Sprintf("%s: %.100q is not a time between 0s and %s", drainKey, s, most)}
	}
	return d, nil
}

// maxWorkerName exceeds the length of a unit's name with its id.
const maxWorkerName = 255

var workerName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// ParseWorker reads a worker's databag. The key becomes a line of the web's file of
// authorized keys. So it must be exactly one OpenSSH key without options, comment and
// second line. A missing value is "" and not a problem: workers of the Python charm publish
// no name.
func ParseWorker(bag map[string]string) (key, name string, problems []string) {
	var r reader
	var err error
	if s := strings.TrimSpace(bag["worker-public-key"]); s != "" {
		key, err = keyLine(s)
		r.addProblem("worker-public-key", err)
	}
	if s := strings.TrimSpace(bag["worker-name"]); s != "" {
		if len(s) <= maxWorkerName && workerName().MatchString(s) {
			name = s
		} else {
			r.addProblem("worker-name", fmt.Errorf("%.100q is not the name of a worker (letters, digits and ._-)", s))
		}
	}
	return key, name, r.problems
}

const minRSABits = 2048

func keyLine(s string) (string, error) {
	if strings.ContainsAny(s, "\r\n\x00") || len(s) > 16<<10 {
		return "", errors.New("want one OpenSSH line (ssh-rsa AAAA...)")
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(s))
	if err != nil {
		return "", fmt.Errorf("%.40q is not an OpenSSH public key (ssh-rsa AAAA...)", s)
	}
	if len(options) > 0 {
		return "", errors.New("want an OpenSSH public key without options before it")
	}
	if _, ok := key.(*ssh.Certificate); ok {
		return "", errors.New("it is a certificate, and not a key")
	}
	if c, ok := key.(ssh.CryptoPublicKey); ok {
		if k, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok && k.N.BitLen() < minRSABits {
			return "", fmt.Errorf("an RSA key of %d bits is too short, want %d", k.N.BitLen(), minRSABits)
		}
	}
	return string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(key))), nil
}
