package relation

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"concourse-ci-machine/internal/base/wellknown"
)

// TSABag is a web unit's bag of concourse-ci_tsa: its address, as host:port or
// without a port, the public key of its SSH server, and the version that it
// runs, "" where that is not known. Address and key come together: one alone is
// of no use to a worker.
func TSABag(host, publicKey, version string) map[string]string {
	bag := map[string]string{}
	if publicKey = strings.TrimSpace(publicKey); host != "" && publicKey != "" {
		bag["tsa-host"], bag["tsa-public-key"] = withPort(host), publicKey
	}
	if version != "" {
		bag["concourse-version"] = version
	}
	return bag
}

func withPort(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return joinHostPort(host, strconv.Itoa(wellknown.TSAPort))
}

// versionKey holds which Concourse a worker runs, x.y.z.
const versionKey = "worker-version"

// WorkerBag is a worker unit's bag: the public key that the web has to
// authorise, the name that the worker registers under, and the version that it runs.
func WorkerBag(publicKey, name, version string) map[string]string {
	return map[string]string{"worker-public-key": strings.TrimSpace(publicKey), "worker-name": name, versionKey: version}
}

// WorkerVersion returns what a worker's bag has as its version, "" if that is none or too long.
// release.Fits reads it.
func WorkerVersion(bag map[string]string) string {
	v := strings.TrimSpace(bag[versionKey])
	if len(v) > len("123456.123456.123456") {
		return ""
	}
	return v
}

// drainKey holds how long the worker's running tasks get when it leaves.
const drainKey = "drain-timeout"

// DrainBag returns what a worker publishes about its end: a web that sees it leave
// keeps its key that long.
func DrainBag(timeout time.Duration) map[string]string {
	return map[string]string{drainKey: timeout.String()}
}

// ParseDrain reads how long a worker may drain, up to most. It returns 0 if the bag
// does not have it, as from older charms.
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

// maxWorkerName is longer than a unit's name and its id.
const maxWorkerName = 255

var workerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// ParseWorker reads a worker's bag. The key becomes a line of the file of those
// that may register, so it is one OpenSSH key and nothing beside: no options, no
// second line, no comment. A value that is missing is "" and no problem: the
// Python charm's workers have no name there.
func ParseWorker(bag map[string]string) (key, name string, problems []string) {
	var r reader
	var err error
	if s := strings.TrimSpace(bag["worker-public-key"]); s != "" {
		key, err = keyLine(s)
		r.bad("worker-public-key", err)
	}
	if s := strings.TrimSpace(bag["worker-name"]); s != "" {
		if len(s) <= maxWorkerName && workerName.MatchString(s) {
			name = s
		} else {
			r.bad("worker-name", fmt.Errorf("%.100q is not the name of a worker (letters, digits and ._-)", s))
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
