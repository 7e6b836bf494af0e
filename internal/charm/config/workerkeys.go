package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

// WorkerKey holds the public key of a worker without this charm.
type WorkerKey struct {
	Team string // the only team with builds on the worker; "" for all teams
	Line string // in OpenSSH's format, without a comment
}

// Bounds on the keys of one option. A fleet of workers needs the relation.
const (
	maxWorkerKeys = 256
	maxKeyLine    = 16 << 10
	minKeyBits    = 2048
	maxTeamName   = 100 // characters
)

// teamName matches a valid name of a new team (atc.ValidateIdentifier), and names with
// capital letters from older releases. The length is checked separately: in the expression
// it would double the start time of dispatch.
var teamName = lazyregexp.New(`^[\p{L}\d][\p{L}\d_.-]*$`)

// workerKeys reads OpenSSH lines, each with an optional team=<team> before it. Problems
// number the lines and quote no key, because a pasted key may be private by mistake.
func workerKeys(s string) (keys []WorkerKey, err error) {
	if strings.Contains(s, "PRIVATE KEY") {
		return nil, errors.New("the value has a private key, which others may have read; " +
			"make a new pair and give the file .pub")
	}
	seen, number := map[string]int{}, 0
	for line := range strings.Lines(s) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := workerKey(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d %w", number, err)
		case seen[key.Line] > 0:
			return nil, fmt.Errorf("line %d has the key of line %d; each worker needs a different key", number,
				seen[key.Line])
		case len(keys) == maxWorkerKeys:
			return nil, fmt.Errorf("there are more than %d keys", maxWorkerKeys)
		}
		seen[key.Line] = number
		keys = append(keys, key)
	}
	return keys, nil
}

var errKeyLine = errors.New("is not a public key; want [team=<team>] ssh-rsa AAAA... <comment>")

func workerKey(line string) (k WorkerKey, err error) {
	if team, rest, found := strings.Cut(line, " "); found && strings.HasPrefix(team, "team=") {
		k.Team, line = strings.TrimPrefix(team, "team="), strings.TrimSpace(rest)
		if !teamName().MatchString(k.Team) || utf8.RuneCountInString(k.Team) > maxTeamName {
			return k, errors.New("has no team's name after team=; want letters, digits, _, . and -")
		}
	}
	if len(line) > maxKeyLine {
		return k, errKeyLine
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
	switch {
	case err != nil || key == nil:
		return k, errKeyLine
	case len(options) > 0:
		return k, errors.New("has options before its key, which Concourse does not act on; take them out")
	case key.Type() != ssh.KeyAlgoRSA:
		return k, fmt.Errorf("has a key of type %s; want RSA: concourse generate-key -t ssh -f key", key.Type())
	}
	if bits := rsaBits(key); bits < minKeyBits {
		return k, fmt.Errorf("has a key of %d bits; want %d or more", bits, minKeyBits)
	}
	k.Line = string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(key)))
	return k, nil
}

func rsaBits(key ssh.PublicKey) int {
	var wire struct {
		Type string
		E, N []byte
	}
	if ssh.Unmarshal(key.Marshal(), &wire) != nil {
		return 0
	}
	return 8 * len(bytes.TrimLeft(wire.N, "\x00"))
}
