package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Option describes one row of the table. A test compares the table with config.yaml.
type Option struct {
	Name    string
	Default any    // string, bool or int
	Secret  bool   // also takes the URI of a secret; no problem quotes its value
	Env     string // environment variable of Concourse that the option sets, or ""

	in in
	// set checks the value and stores it in the config. Its error is the text of a problem.
	set func(c *Config, v any) error
}

// Options returns the table, in the order of config.yaml.
func Options() []Option {
	return slices.Concat(commonOptions(), webOptions(), buildOptions(), registryOptions(), coverageOptions(),
		vaultOptions(), ldapOptions(),
		oauthOptions(), oidcOptions(), workerOptions(), gpuOptions())
}

// in selects the environment for an option's variable. No option is a variable of concourse
// worker: the options of workers are fields of Config.
type in func(c *Config) *map[string]string

func web(c *Config) *map[string]string   { return &c.Web.Env }
func vault(c *Config) *map[string]string { return &c.Web.VaultEnv }

// WebEnvKeys returns the variables of concourse web that options can set, sorted, with the
// variables of VaultEnv and Files. A variable that an option no longer sets must be removed
// from the file.
func WebEnvKeys() []string {
	keys := map[string]bool{}
	for _, o := range Options() {
		if o.Env != "" {
			keys[o.Env] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// secret marks an option that may hold a secret.
func secret(o Option) Option {
	set := o.set
	o.Secret, o.set = true, func(c *Config, v any) error {
		if _, ok := v.(string); !ok {
			return errors.New("the value is not text")
		}
		return set(c, v)
	}
	return o
}

func text(name, standard string, set func(*Config, string) error) Option {
	return Option{Name: name, Default: standard, set: func(c *Config, v any) error {
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("%v is not text", v)
		}
		return set(c, s)
	}}
}

// choice returns an option with one of the values. The first value is the default.
func choice[T ~string](name string, field func(*Config) *T, values ...T) Option {
	return text(name, string(values[0]), func(c *Config, s string) error {
		*field(c) = T(s)
		return oneOf(T(s), values...)
	})
}

func boolean(name string, standard bool, set func(*Config, bool)) Option {
	return Option{Name: name, Default: standard, set: func(c *Config, v any) error {
		on, ok := v.(bool)
		if !ok {
			return fmt.Errorf("%v is not true or false", v)
		}
		set(c, on)
		return nil
	}}
}

// integer takes whole numbers from low to high. JSON decodes numbers as floats.
func integer(name string, standard, low, high int, set func(*Config, int) error) Option {
	return Option{Name: name, Default: standard, set: func(c *Config, v any) error {
		n, ok := whole(v)
		if !ok || n < low || n > high {
			return fmt.Errorf("%v is not a whole number between %d and %d", v, low, high)
		}
		return set(c, n)
	}}
}

func whole(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case int64:
		return int(v), true
	case float64:
		return int(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	case json.Number:
		n, err := strconv.Atoi(v.String())
		return n, err == nil
	}
	return 0, false
}

// rule checks a text that is not empty, and returns the value for Concourse.
type rule func(s string) (string, error)

// envKey returns Concourse's environment variable for a flag. The charm's option has the
// name of the flag.
func envKey(name string) string {
	return "CONCOURSE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// env makes o an option that sets exactly one environment variable, named as the option.
func env(where in, o Option) Option {
	o.Env, o.in = envKey(o.Name), where
	return o
}

func (o Option) write(c *Config, value string) {
	into := o.in(c)
	if *into == nil {
		*into = map[string]string{}
	}
	(*into)[o.Env] = value
}

// envText returns an option with text. Without text it has its default.
func envText(where in, name, standard string, check rule) Option {
	o := env(where, Option{Name: name})
	filled := text(name, standard, func(c *Config, s string) error {
		if s = cmp.Or(s, standard); s == "" {
			return nil
		}
		s, err := check(s)
		if err == nil {
			o.write(c, s)
		}
		return err
	})
	return env(where, filled)
}

// envCount returns an option with a number. 0, the default of Concourse, is not written.
func envCount(where in, name string) Option {
	o := env(where, Option{Name: name})
	return env(where, integer(name, 0, 0, 1_000_000_000, func(c *Config, n int) error {
		if n != 0 {
			o.write(c, strconv.Itoa(n))
		}
		return nil
	}))
}

// envSwitch returns a boolean option. false is written only if the default is true.
func envSwitch(where in, name string, standard bool) Option {
	o := env(where, Option{Name: name})
	return env(where, boolean(name, standard, func(c *Config, on bool) {
		if on || standard {
			o.write(c, strconv.FormatBool(on))
		}
	}))
}

// FromText returns the value of an option for a text of a command line or a file. A text
// option keeps values such as 10 and true as text.
func FromText(name, text string) any {
	for _, o := range Options() {
		if _, isText := o.Default.(string); o.Name == name && !isText {
			var v any
			if yaml.Unmarshal([]byte(text), &v) != nil {
				return text // the check of its type has the message
			}
			switch v.(type) {
			case int, bool, float64:
				return v
			}
		}
	}
	return text
}
