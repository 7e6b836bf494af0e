package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

// Secrets holds Juju secrets by URI, spelled as in the option.
type Secrets map[string]SecretValue

// SecretValue holds the content of a secret.
type SecretValue struct {
	Content map[string]string
	Problem string // reason why it cannot be read, or ""
}

// secretURI matches the output of juju add-secret, in its short form and in its long form
// with the model's id.
var secretURI = lazyregexp.New(`^secret:(//)?([0-9a-f-]{36}/)?[0-9a-z]{20}$`)

// SecretURIs returns the URIs of secrets in options, sorted, each once.
func SecretURIs(raw map[string]any) []string {
	uris := map[string]bool{}
	for _, o := range Options() {
		if s, ok := raw[o.Name].(string); ok && o.Secret && secretURI().MatchString(strings.TrimSpace(s)) {
			uris[strings.TrimSpace(s)] = true
		}
	}
	return slices.Sorted(maps.Keys(uris))
}

// read returns the option's value from a secret. It takes the key with the option's name,
// then the key value, then the only key.
func (s Secrets) read(uri, option string) (string, error) {
	if s == nil {
		return "", errors.New("the value starts with secret:, and secrets of Juju need Juju; write the text itself")
	}
	if !secretURI().MatchString(uri) {
		return "", fmt.Errorf("the value starts with secret: and is not the URI of a secret; write what juju " +
			"add-secret printed")
	}
	secret, known := s[uri]
	why := secret.Problem
	if !known {
		why = "no permission"
	} else if why == "" && len(secret.Content) == 0 {
		why = "it is empty"
	}
	if why != "" {
		return "", fmt.Errorf("cannot read the secret (%s); run: juju grant-secret <name> <application>", why)
	}
	keys := slices.Sorted(maps.Keys(secret.Content))
	key := "value"
	if slices.Contains(keys, option) {
		key = option
	} else if len(keys) == 1 {
		key = keys[0]
	}
	value, ok := secret.Content[key]
	if !ok {
		return "", fmt.Errorf("the secret has the keys %s; want one named %s or value",
			strings.Join(keys, ", "), option)
	}
	// A secret that was read from a file ends in a newline. Other white space may belong
	// to a password.
	if value = strings.TrimRight(value, "\r\n"); value == "" {
		return "", fmt.Errorf("the key %s of the secret is empty", key)
	}
	return value, nil
}
