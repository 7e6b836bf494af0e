package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// webOptions returns the options of the web itself. Most are fields, because their variables
// depend on more than the option.
func webOptions() []Option {
	return []Option{
		integer("web-port", 8080, 1, 65535, func(c *Config, n int) error { c.Web.Port = n; return freePort(n) }),
		text("external-url", "", func(c *Config, s string) (err error) {
			c.Web.ExternalURL, err = baseURL(s, "https://ci.example.com")
			return err
		}),
		boolean("tls-enabled", false, func(c *Config, on bool) { c.Web.TLSEnabled = on }),
		integer("tls-port", 8443, 1, 65535, func(c *Config, n int) error { c.Web.TLSPort = n; return freePort(n) }),
		text("initial-admin-username", "admin", func(c *Config, s string) error {
			c.Web.InitialAdminUsername = s
			return userName(s)
		}),
		text("main-team-local-user", "", func(c *Config, s string) error {
			users, err := list(s, userName)
			c.Web.MainTeamLocalUser = strings.Join(users, ",")
			return err
		}),
		secret(text("extra-local-users", "", func(c *Config, s string) error {
			c.Web.ExtraLocalUsers = s
			return localUsers(s)
		})),
		boolean("enable-metrics", false, func(c *Config, on bool) { c.Web.EnableMetrics = on }),
		choice("fleet-page", func(c *Config) *FleetPage { return &c.Web.FleetPage }, FleetNames, FleetAnonymous,
			FleetOff),
		secret(text("encryption-key", "", func(c *Config, s string) error {
			c.Web.EncryptionKey = s
			if n := len(s); n != 0 && n != 16 && n != 32 {
				return fmt.Errorf("the key has %d bytes; Concourse takes 16 or 32: openssl rand -hex 16 prints 32", n)
			}
			_, err := line(s)
			return err
		})),
		text("extra-worker-keys", "", func(c *Config, s string) (err error) {
			c.Web.ExtraWorkerKeys, err = workerKeys(s)
			return err
		}),
		text("extra-web-flags", "", func(c *Config, s string) (err error) {
			c.Web.ExtraWebFlags, err = webFlags(s)
			return err
		}),
	}
}

// baseURL checks a URL that paths are appended to.
func baseURL(s, example string) (string, error) {
	if strings.ContainsAny(s, "?#@") {
		return "", fmt.Errorf("%q has more than a host, a port and a path; write a URL like %s",
			withoutPassword(s), example)
	}
	return strings.TrimRight(s, "/"), httpURL(s)
}

// otherPorts returns the ports that are in use by Concourse and this charm.
func otherPorts() map[int]string {
	return map[int]string{
		22:                       "SSH",
		2221:                     "Concourse's debugging of the TSA",
		wellknown.TSAPort:        "workers (TSA)",
		wellknown.ContainersPort: "a worker's containers",
		7788:                     "a worker's volumes",
		8079:                     "Concourse's debugging of the web",
		8888:                     "a worker's health",
		wellknown.JobsPort:       "the metrics of jobs",
		wellknown.WebMetricsPort: "Concourse's metrics",
		wellknown.GPUsPort:       "the metrics of GPUs",
	}
}

func freePort(n int) error {
	if use, taken := otherPorts()[n]; taken {
		return fmt.Errorf("%d is the port for %s; take another one, such as 8080, 80 or 443", n, use)
	}
	return nil
}

// userName checks a name for Concourse's lists of users, in which : and , are separators.
func userName(s string) error {
	if s == "" || !printable(s) || strings.ContainsAny(s, ":, \t") {
		return fmt.Errorf("%q is not a user's name: want letters and digits without white space, colons or commas", s)
	}
	return nil
}

// localUsers checks name:password pairs. Problems number the pairs and do not quote them: a
// part that looks like a name may be half of a password with a comma.
func localUsers(s string) error {
	seen := map[string]bool{}
	for i, pair := range pairs(s) {
		name, password, ok := strings.Cut(pair, ":")
		if !ok || password == "" || userName(name) != nil || !printable(password) {
			return fmt.Errorf("pair %d is not name:password; want pairs with commas between them, and no comma "+
				"in a password", i+1)
		}
		if seen[name] {
			return fmt.Errorf("pair %d has the name of an earlier one", i+1)
		}
		seen[name] = true
	}
	return nil
}

func pairs(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// buildOptions returns the options about builds and their logs.
func buildOptions() []Option {
	return []Option{
		envText(web, "container-placement-strategy", "volume-locality", placement),
		envCount(web, "default-build-logs-to-retain"),
		envCount(web, "default-days-to-retain-build-logs"),
		envCount(web, "max-build-logs-to-retain"),
		envCount(web, "max-days-to-retain-build-logs"),
		envText(web, "gc-failed-grace-period", "", duration),
		envSwitch(web, "secret-cache-enabled", true),
		envText(web, "secret-cache-duration", "5m", duration),
		envText(web, "secret-cache-duration-notfound", "1m", duration),
	}
}

// placement checks the strategies of Concourse 7 and 8 (concourse web --help). Concourse
// applies several in turn, and random leaves no choice to the next one.
func placement(s string) (string, error) {
	strategies, err := list(s, func(s string) error {
		return oneOf(s, "volume-locality", "random", "fewest-build-containers", "limit-active-tasks",
			"limit-active-containers", "limit-active-volumes")
	})
	if err != nil {
		return "", err
	}
	for i, one := range strategies {
		if slices.Contains(strategies[:i], one) {
			return "", fmt.Errorf("%s is given twice", one)
		}
	}
	if len(strategies) > 1 && slices.Contains(strategies, "random") {
		return "", fmt.Errorf("random excludes other strategies; write it alone or leave it out")
	}
	return strings.Join(strategies, ","), nil
}
