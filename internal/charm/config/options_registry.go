package config

import (
	"errors"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

// ResourceDefaults is Concourse's variable with the path of a file. The file has defaults
// for the source of base resource types.
const ResourceDefaults = "CONCOURSE_BASE_RESOURCE_TYPE_DEFAULTS"

// mirrorForm matches a registry for registry-image: no scheme and no path.
var mirrorForm = lazyregexp.New(`^([A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?$`)

// registryMirror holds a mirror in the source of registry-image.
type registryMirror struct {
	Host     string `yaml:"host"`
	Username string `yaml:"username,omitempty"`
	Password string `yaml:"password,omitempty"`
}

// registryOptions returns the defaults for the source of registry-image, for all teams.
func registryOptions() []Option {
	ca := text("registry-ca-cert", "", func(c *Config, s string) error {
		if s == "" {
			return nil
		}
		c.Web.RegistryCACert = s + "\n"
		return certificates(s)
	})
	mirror := secret(text("registry-mirror", "", func(c *Config, s string) error {
		if s == "" {
			return nil
		}
		login, host, both := strings.Cut(s, "@")
		if !both {
			login, host = "", s
		}
		user, password, paired := strings.Cut(login, ":")
		if strings.Contains(s, "://") || !mirrorForm().MatchString(host) || !printable(login) ||
			both && (!paired || user == "" || password == "") {
			return errors.New("the value is not host:port, or user:password@host:port, without https:// and " +
				"without a path")
		}
		c.Web.RegistryMirror = registryMirror{host, user, password}
		return nil
	}))
	mirror.Env, ca.Env = ResourceDefaults, ResourceDefaults
	return []Option{mirror, ca}
}

// registryDefaults writes both defaults into one file. The source of a resource overrides
// them.
func (c *Config) registryDefaults() error {
	source := struct {
		Mirror registryMirror `yaml:"registry_mirror,omitempty"`
		CA     []string       `yaml:"ca_certs,omitempty"`
	}{Mirror: c.Web.RegistryMirror}
	if c.Web.RegistryCACert != "" {
		source.CA = []string{c.Web.RegistryCACert}
	}
	if source.Mirror.Host == "" && source.CA == nil {
		return nil
	}
	for _, f := range c.Web.ExtraWebFlags {
		if name, _, _ := strings.Cut(f, "="); name == "--base-resource-type-defaults" {
			return errors.New("extra-web-flags has --base-resource-type-defaults, which wins; put the mirror there")
		}
	}
	data, err := yaml.Marshal(map[string]any{"registry-image": source})
	if c.Web.Files == nil {
		c.Web.Files = map[string]string{}
	}
	c.Web.Files[ResourceDefaults] = string(data)
	return err
}
