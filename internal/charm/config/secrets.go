package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Secrets are Juju secrets by their URI as an option has it.
type Secrets map[string]SecretValue

// SecretValue is what a secret holds.
type SecretValue struct {
	Content map[string]string
	Problem string // why it can't be read; "" when it was
}

// secretURI is what juju add-secret prints, in its short form and its long one
// with the model's id.
var secretURI = regexp.MustCompile(`^secret:(//)?([0-9a-f-]{36}/)?[0-9a-z]{20}$`)

// SecretURIs are the URIs of secrets that options name, sorted, none twice.
func SecretURIs(raw map[string]any) []string {
	uris := map[string]bool{}
	for _, o := range Options() {
		if s, ok := raw[o.Name].(string); ok && o.Secret && secretURI.MatchString(strings.TrimSpace(s)) {
			uris[strings.TrimSpace(s)] = true
		}
	}
	return slices.Sorted(maps.Keys(uris))
}

// read is the option's value from a secret: the content of the key with the
// option's name, else of the key value, else of the only key.
func (s Secrets) read(uri, option string) (string, error) {
	if !secretURI.MatchString(uri) {
		return "", fmt.Errorf("the value starts with secret: and is not the URI of a secret; write what juju add-secret printed")
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
		return "", fmt.Errorf("the secret has the keys %s; want one named %s or value", strings.Join(keys, ", "), option)
	}
	// A secret that was read from a file ends in a line end; other white space
	// may belong to a password.
	if value = strings.TrimRight(value, "\r\n"); value == "" {
		return "", fmt.Errorf("the key %s of the secret is empty", key)
	}
	return value, nil
}
