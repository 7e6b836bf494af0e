package config

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

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
		case !ok || !envName.MatchString(key):
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

// folder checks one name of srv-folders. The rule equals oci.FolderNameProblem. A test of
// package worker compares them.
func folder(s string) error {
	if s == "" || s[0] == '.' || strings.Contains(s, "/") || !utf8.ValidString(s) ||
		strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%q is not the name of a folder in /srv", s)
	}
	return nil
}
