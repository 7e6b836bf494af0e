package config

import (
	"fmt"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

var (
	versionForm = lazyregexp.New(`^[0-9]+\.[0-9]+\.[0-9]+$`)
	sha256Form  = lazyregexp.New(`^[0-9a-f]{64}$`)
)

// commonOptions returns the options of every unit.
func commonOptions() []Option {
	return []Option{
		text("mode", string(ModeAuto), func(c *Config, s string) error {
			c.Mode = Mode(s)
			return oneOf(c.Mode, ModeAuto, ModeAll, ModeWeb, ModeWorker)
		}),
		text("version", "", func(c *Config, s string) error { c.Release.Version = s; return version(s) }),
		boolean("auto-upgrade", false, func(c *Config, on bool) { c.Release.AutoUpgrade = on }),
		secret(text("github-token", "", func(c *Config, s string) error { c.Release.GitHubToken = s; return token(s) })),
		text("release-mirror", "", func(c *Config, s string) error {
			c.Release.Mirror = strings.TrimRight(s, "/")
			return httpURL(s)
		}),
		text("release-sha256", "", func(c *Config, s string) error {
			c.Release.SHA256 = strings.ToLower(s)
			if s != "" && !sha256Form().MatchString(c.Release.SHA256) {
				return fmt.Errorf("%q is not a SHA-256: want the 64 hex digits that sha256sum prints", s)
			}
			return nil
		}),
		choice("shared-storage", func(c *Config) *SharedStorage { return &c.SharedStorage }, StorageNone, StorageLXC),
		text("log-level", string(LogInfo), func(c *Config, s string) error {
			c.LogLevel = LogLevel(s)
			if c.LogLevel == logWarn {
				c.LogLevel = LogError
			}
			return oneOf(LogLevel(s), LogDebug, LogInfo, logWarn, LogError, LogFatal)
		}),
		secret(text("http-proxy", "", func(c *Config, s string) error { c.HTTPProxy = s; return secretURL(s) })),
		secret(text("https-proxy", "", func(c *Config, s string) error { c.HTTPSProxy = s; return secretURL(s) })),
		text("no-proxy", "", func(c *Config, s string) error {
			c.NoProxy = s
			if strings.ContainsAny(s, " \t\r\n\"'\\") || !printable(s) {
				return fmt.Errorf("%q has white space, quotes or backslashes; want hosts with commas between them", s)
			}
			return nil
		}),
	}
}

func version(s string) error {
	switch {
	case s == "" || versionForm().MatchString(s):
		return nil
	case strings.HasPrefix(s, "v") && versionForm().MatchString(s[1:]):
		return fmt.Errorf("%q has a leading v; write %s", s, s[1:])
	}
	return fmt.Errorf("%q is not a version like 8.2.5; leave it empty for the one that this charm was tested with", s)
}
