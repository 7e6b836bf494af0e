package jujutest

import (
	"fmt"
	"os"
	"strconv"

	"gopkg.in/yaml.v3"
)

// Option describes one entry of a charm's config.yaml.
type Option struct {
	Type        string `yaml:"type"` // string, int, float, boolean, secret
	Default     any    `yaml:"default"`
	Description string `yaml:"description"`
}

// LoadConfig declares the options of a config.yaml and gives each its default.
func (m *Model) LoadConfig(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var file struct {
		Options map[string]Option `yaml:"options"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	for name, o := range file.Options {
		if err := m.Declare(name, o); err != nil {
			return fmt.Errorf("cannot read %s: %w", path, err)
		}
	}
	return nil
}

// Declare adds an option with its default. Juju refuses a charm if a default does not match
// the option's type.
func (m *Model) Declare(name string, o Option) error {
	v, err := o.check(name, o.Default)
	if err != nil {
		return err
	}
	m.Options[name], m.Config[name] = o, v
	return nil
}

// SetConfig works like `juju config app name=value`. It converts a string to the option's
// type, and nil resets the option to its default. Juju refuses unknown options and values
// of another type.
func (m *Model) SetConfig(name string, value any) error {
	o, ok := m.Options[name]
	if !ok {
		return fmt.Errorf("unknown option %q", name)
	}
	if value == nil {
		value = o.Default
	}
	v, err := o.check(name, value)
	if err == nil {
		m.Config[name] = v
	}
	return err
}

func (o Option) check(name string, v any) (any, error) {
	text, isText := v.(string)
	var err error
	switch o.Type {
	case "string", "secret":
		if v == nil || isText {
			return v, nil
		}
	case "int":
		switch v := v.(type) {
		case nil:
			return nil, nil
		case int:
			return int64(v), nil
		case int64:
			return v, nil
		case string:
			var n int64
			if n, err = strconv.ParseInt(v, 10, 64); err == nil {
				return n, nil
			}
		}
	case "float":
		switch v := v.(type) {
		case nil:
			return nil, nil
		case int:
			return float64(v), nil
		case float64:
			return v, nil
		case string:
			var f float64
			if f, err = strconv.ParseFloat(v, 64); err == nil {
				return f, nil
			}
		}
	case "boolean":
		switch v := v.(type) {
		case nil:
			return nil, nil
		case bool:
			return v, nil
		case string:
			var b bool
			if b, err = strconv.ParseBool(v); err == nil {
				return b, nil
			}
		}
	default:
		return nil, fmt.Errorf("invalid config: option %q has unknown type %q", name, o.Type)
	}
	if isText {
		v = text
	}
	return nil, fmt.Errorf("option %q expected %s, got %#v", name, o.Type, v)
}
