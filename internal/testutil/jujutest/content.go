package jujutest

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// maxSecret is the limit of one value and of all, base64 encoded.
const maxSecret = 1000 * 1000

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func yamlStrings(data []byte) (map[string]string, error) {
	out := map[string]string{}
	return out, yaml.Unmarshal(data, &out)
}

// secretContent checks the options that secret-add and secret-set share and
// returns the content, decoded.
func (i *invocation) secretContent(args []string) (map[string]string, error) {
	if v := i.flags["expire"]; v != "" && !isExpiry(v) {
		return nil, usagef("expire time or duration %q not valid", v)
	}
	if v := i.flags["rotate"]; v != "" && !slices.Contains(rotations, v) {
		return nil, usagef("rotate policy %q not valid", v)
	}
	if v, set := i.flags["owner"]; set && v != "application" && v != "unit" {
		return nil, usagef("secret owner %q not valid", v)
	}
	raw := map[string]string{}
	for _, a := range args {
		// A value may end in base64's own "=".
		n := strings.IndexByte(strings.TrimRight(a, "="), '=')
		if n < 1 {
			return nil, usagef("key value %q not valid", a)
		}
		key, value := a[:n], a[n+1:]
		if name, ok := strings.CutSuffix(key, "#file"); ok {
			data, err := readFile(value)
			if err != nil {
				return nil, usagef("reading content for secret key %q: %w", name, err)
			}
			key, value = name, string(data)
		}
		raw[key] = value
	}
	out := map[string]string{}
	if err := decodeInto(out, raw); err != nil {
		return nil, err
	}
	if path := i.flags["file"]; path != "" {
		data, err := readFile(path)
		if err != nil {
			return nil, usageError{err}
		}
		if raw, err = decodeFile(data); err != nil {
			return nil, usageError{err}
		}
		if err := decodeInto(out, raw); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func decodeInto(out, raw map[string]string) error {
	total := 0
	for key, value := range raw {
		name, encoded := strings.CutSuffix(key, "#base64")
		if !secretKey.MatchString(name) {
			return usagef("key %q not valid", name)
		}
		if encoded {
			// Juju keeps what it got and fails when it is read; here at once.
			data, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				return usageError{fmt.Errorf("key %q: %w", name, err)}
			}
			value = string(data)
		}
		size := base64.StdEncoding.EncodedLen(len(value))
		if size > maxSecret {
			return usagef("base64 encoded secret content for key %q too large: %d bytes", name, size)
		}
		out[name] = value
		total += size
	}
	if total > maxSecret {
		return usagef("base64 encoded secret content too large: %d bytes", total)
	}
	return nil
}

func isExpiry(v string) bool {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05"} {
		if _, err := time.Parse(layout, v); err == nil {
			return true
		}
	}
	d, err := time.ParseDuration(v)
	return err == nil && d > 0
}
