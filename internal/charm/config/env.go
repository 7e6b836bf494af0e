package config

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

var envName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// environment reads KEY=value words. Double quotes keep white space together and are
// dropped. There are no escapes. A problem names a key, never a value, because the value
// may be secret.
func environment(s string) (map[string]string, error) {
	words, err := quotedWords(s)
	if err != nil || len(words) == 0 {
		return nil, err
	}
	env := map[string]string{}
	for i, w := range words {
		key, value, ok := strings.Cut(w, "=")
		switch {
		case !ok || !envName().MatchString(key):
			return nil, fmt.Errorf("word %d is not KEY=value", i+1)
		case strings.ContainsRune(value, 0):
			return nil, fmt.Errorf("%s has a NUL byte", key)
		}
		if _, twice := env[key]; twice {
			return nil, fmt.Errorf("%s is given twice", key)
		}
		env[key] = value
	}
	return env, nil
}

// amdEnvironment checks the variables for AMD GPUs and writes the build targets in order.
// auto reports that the charm chooses HSA_OVERRIDE_GFX_VERSION. Unlike others, these values
// are never secret.
func amdEnvironment(env map[string]string) (auto bool, err error) {
	const targets, override = "HIP_ARCHES", "HSA_OVERRIDE_GFX_VERSION"
	if value := env[targets]; value != "" {
		all, err := hipArches(value)
		if err != nil {
			return false, fmt.Errorf("%s: %w", targets, err)
		}
		env[targets] = strings.Join(all, ",")
	}
	switch value := env[override]; {
	case value == "auto":
		delete(env, override)
		return true, nil
	case value != "" && !versionForm().MatchString(value):
		return false, fmt.Errorf("%s: %q is not auto or a version such as 11.0.0", override, value)
	}
	return false, nil
}

// folder checks one name of srv-folders. The rule equals oci.FolderNameProblem. A test of
// package worker compares them.
func folder(s string) error {
	if s == "" || s[0] == '.' || strings.Contains(s, "/") || !utf8.ValidString(s) ||
		strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%q is not the name of a folder in /srv", s)
	}
	return nil
}
