package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

var (
	flagForm = lazyregexp.New(`^--[a-z0-9][a-z0-9-]*$`)
	// secretFlag matches flags of concourse web (--help) with secret values. All users of
	// the unit see flags in the list of processes.
	secretFlag = lazyregexp.New(`(password|-secret|-secret-key|-access-key|-token|-api-key|-auth-param|-bind-pw|` +
		`^client-secret|^add-client|^dummy-creds-var|-otlp-header)$`)
)

// webFlags reads extra-web-flags into words, each --flag or --flag=value. It refuses flags
// that would show a secret, and flags that the charm sets. A flag has priority over the
// environment that the charm writes (D28). Problems name flags and never quote values.
func webFlags(s string) ([]string, error) {
	words, err := shellWords(s)
	if err != nil {
		return nil, err
	}
	var flags []string
	options := charmFlags()
	bare := false // the previous flag had no value
	for i, w := range words {
		name, _, valued := strings.Cut(w, "=")
		switch {
		case !printable(w):
			return nil, fmt.Errorf("word %d has a line end or another control character", i+1)
		case bare && !strings.HasPrefix(w, "-"): // --flag value
			flags[len(flags)-1] += "=" + w
			bare = false
			continue
		case !flagForm().MatchString(name):
			return nil, fmt.Errorf("word %d is not a flag of concourse web; write --flag or --flag=value, in "+
				"quotes if it has white space", i+1)
		}
		if err := allowed(name, options); err != nil {
			return nil, err
		}
		flags, bare = append(flags, w), !valued
	}
	return flags, nil
}

// charmFlags returns the flags that the charm sets, each with the option for it, or "".
// They include the flags of secret options. A flag of any other option is allowed and has
// priority over the option.
func charmFlags() map[string]string {
	flags := map[string]string{
		"bind-port": "web-port", "tls-bind-port": "tls-port", "tls-cert": "tls-enabled", "tls-key": "tls-enabled",
		"external-url": "external-url", "log-level": "log-level", "peer-address": "", "cluster-name": "",
		"add-local-user": "extra-local-users", "main-team-local-user": "main-team-local-user",
		"encryption-key": "encryption-key", "encryption-key-base64": "encryption-key",
		"encryption-key-hex": "encryption-key",
		"old-encryption-key": "encryption-key", "old-encryption-key-base64": "encryption-key",
		"old-encryption-key-hex": "encryption-key",
		"prometheus-bind-ip":     "enable-metrics", "prometheus-bind-port": "enable-metrics",
		"session-signing-key": "", "tsa-host-key": "", "tsa-authorized-keys": "", "tsa-bind-port": "",
		"help": "", "version": "version",
	}
	for _, o := range Options() {
		if o.Secret {
			flags[o.Name] = o.Name
		}
	}
	return flags
}

// allowed returns an error if a flag cannot be used in extra-web-flags.
func allowed(flag string, options map[string]string) error {
	name := strings.TrimPrefix(flag, "--")
	option, own := options[name]
	switch {
	case own && option != "":
		return fmt.Errorf("%s is the charm's to set; use the option %s", flag, option)
	case own || strings.HasPrefix(name, "postgres-"):
		return fmt.Errorf("%s is the charm's to set; leave it out", flag)
	case secretFlag().MatchString(name):
		return fmt.Errorf("%s shows a secret; write %s into config.env", flag, envKey(name))
	}
	return nil
}

// shellWords splits text at white space like a shell. It supports 'single quotes', "double
// quotes with \" and \\", and \ before any other character. It expands nothing.
func shellWords(s string) ([]string, error) { return splitWords(s, true) }

// quotedWords splits at white space outside double quotes. All else is literal.
func quotedWords(s string) ([]string, error) { return splitWords(s, false) }

func splitWords(s string, shell bool) (words []string, err error) {
	var b strings.Builder
	var quote rune // the open one, or 0
	escaped, begun := false, false
	for _, r := range s {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				b.WriteRune('\\')
			}
			b.WriteRune(r)
			escaped = false
		case shell && r == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || shell && r == '\''):
			quote, begun = r, true
		case quote == 0 && strings.ContainsRune(" \t\r\n", r):
			if begun {
				words = append(words, b.String())
			}
			b.Reset()
			begun = false
		default:
			b.WriteRune(r)
			begun = true
		}
	}
	switch {
	case quote != 0:
		return nil, errors.New("a quote is not closed")
	case escaped:
		return nil, errors.New("there is nothing after the last backslash")
	case begun:
		words = append(words, b.String())
	}
	return words, nil
}
