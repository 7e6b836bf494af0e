package charmpack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	"gopkg.in/yaml.v3"
)

// Names that charm/v12 and names/v5 accept.
var (
	charmName  = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]*[a-z][a-z0-9]*)*$`)
	actionName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
)

// profileDevices are the only devices that Juju accepts in a charm, and profileRefused the
// prefixes of configuration keys that it refuses (charm/v12
// LXDProfile.ValidateConfigDevices).
var (
	profileDevices = []string{"unix-char", "unix-block", "gpu", "usb"}
	profileRefused = []string{"boot", "limits", "migration"}
)

// Check reads the charm's YAML files and returns one error with all problems in them.
func (s Source) Check() error {
	var all []error
	for file, check := range map[string]func([]byte) []string{
		"metadata.yaml":    checkMetadata,
		"config.yaml":      checkConfig,
		"actions.yaml":     checkActions,
		"lxd-profile.yaml": checkProfile,
	} {
		data, err := os.ReadFile(filepath.Join(s.Root, file))
		if err != nil {
			all = append(all, fmt.Errorf("cannot check %s: %w", file, err))
			continue
		}
		for _, p := range check(data) {
			all = append(all, fmt.Errorf("%s: %s", file, p))
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Error() < all[j].Error() })
	return errors.Join(all...)
}

func (s Source) metadata() (metadata, error) {
	var m metadata
	data, err := s.metadataFile()
	if err == nil {
		err = strict(data, &m)
	}
	if err != nil {
		return m, fmt.Errorf("cannot read metadata.yaml: %w", err)
	}
	return m, nil
}

// strict decodes one YAML document and refuses unknown and repeated keys.
func strict(data []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	return d.Decode(into)
}

func checkMetadata(data []byte) (bad []string) {
	var m metadata
	if err := strict(data, &m); err != nil {
		return []string{err.Error()}
	}
	note := func(format string, a ...any) { bad = append(bad, fmt.Sprintf(format, a...)) }
	if !charmName.MatchString(m.Name) {
		note("name %q is not one Juju accepts", m.Name)
	}
	if m.Summary == "" || m.Description == "" {
		note("summary and description are required")
	}
	seen := map[string]bool{}
	for _, group := range []map[string]relation{m.Provides, m.Requires, m.Peers} {
		for name, r := range group {
			if seen[name] {
				note("relation %s is there twice", name)
			}
			seen[name] = true
			if name == "juju" || strings.HasPrefix(name, "juju-") {
				note("relation %s: the name is reserved", name)
			}
			if r.Interface == "" {
				note("relation %s has no interface", name)
			}
			if !slices.Contains([]string{"", "global", "container"}, r.Scope) {
				note("relation %s: scope %q is not global or container", name, r.Scope)
			}
		}
	}
	for name, r := range m.Resources {
		if r.Type != "file" && r.Type != "oci-image" {
			note("resource %s: type %q is not file or oci-image", name, r.Type)
		}
		if r.Type == "file" && (r.Filename == "" || strings.Contains(r.Filename, "/")) {
			note("resource %s: filename %q is not a plain file name", name, r.Filename)
		}
	}
	return bad
}

func checkConfig(data []byte) (bad []string) {
	var c config
	if err := strict(data, &c); err != nil {
		return []string{err.Error()}
	}
	for name, o := range c.Options {
		ok := o.Default == nil
		switch o.Default.(type) {
		case string:
			ok = o.Type == "string" || o.Type == "secret"
		case bool:
			ok = o.Type == "boolean"
		case int:
			ok = o.Type == "int" || o.Type == "float"
		case float64:
			ok = o.Type == "float"
		}
		if !slices.Contains([]string{"string", "int", "float", "boolean", "secret"}, o.Type) {
			bad = append(bad, fmt.Sprintf("option %s: type %q is not string, int, float, boolean or secret", name,
				o.Type))
		} else if !ok {
			bad = append(bad, fmt.Sprintf("option %s: default %v is not a %s", name, o.Default, o.Type))
		}
		if o.Description == "" {
			bad = append(bad, fmt.Sprintf("option %s has no description", name))
		}
	}
	return bad
}

func checkActions(data []byte) (bad []string) {
	var a actions
	if err := strict(data, &a); err != nil {
		return []string{err.Error()}
	}
	for name, action := range a {
		if !actionName.MatchString(name) || name == "juju" || strings.HasPrefix(name, "juju-") {
			bad = append(bad, fmt.Sprintf("action %s: the name is not one Juju accepts", name))
		}
		if action.Description == "" {
			bad = append(bad, fmt.Sprintf("action %s has no description", name))
		}
		if action.AdditionalProperties == nil || *action.AdditionalProperties {
			bad = append(bad, fmt.Sprintf("action %s takes any parameter, a misspelt one among them: it needs "+
				"additionalProperties: false", name))
		}
		for _, r := range action.Required {
			if _, ok := action.Params[r]; !ok {
				bad = append(bad, fmt.Sprintf("action %s requires %s, which is not among its params", name, r))
			}
		}
	}
	return bad
}

func checkProfile(data []byte) (bad []string) {
	var p lxdProfile
	if err := strict(data, &p); err != nil {
		return []string{err.Error()}
	}
	for key := range p.Config {
		for _, prefix := range profileRefused {
			if strings.HasPrefix(key, prefix) {
				bad = append(bad, fmt.Sprintf("config %s: Juju refuses %s*", key, prefix))
			}
		}
	}
	for name, d := range p.Devices {
		if !slices.Contains(profileDevices, d["type"]) {
			bad = append(bad, fmt.Sprintf("device %s: type %q is not one of %s", name, d["type"],
				strings.Join(profileDevices, ", ")))
		}
	}
	return bad
}
