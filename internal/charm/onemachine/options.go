package onemachine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/charm/config"
)

// OptionsFile has the operator's options: the charm's, by the same names and checks, and
// databaseOption. Only root can read it, because options may be passwords.
const OptionsFile = "/etc/concourse-ci-machine/config.yaml"

// databaseOption names a PostgreSQL server for the web. Without it the machine gets one.
const databaseOption = "database-url"

// firstOptions are the defaults that differ from the charm's: a machine without Juju has no
// leader that decides its mode.
var firstOptions = []struct{ name, value string }{{"mode", "all"}, {"compute-runtime", "auto"}}

// OptionsError reports all problems of the options.
type OptionsError struct{ Problems []string }

func (e *OptionsError) Error() string {
	return "cannot use these options, so nothing was changed:\n  " + strings.Join(e.Problems, "\n  ")
}

// readOptions reads OptionsFile. Without the file there is no option.
func readOptions(r host.Root) (map[string]any, error) {
	data, err := r.ReadFile(OptionsFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("cannot read %s: only root may; run the command with sudo", OptionsFile)
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: %w", OptionsFile, err)
	}
	return parseOptions(data)
}

// addFirst sets the firstOptions that the options lack.
func addFirst(set map[string]any) {
	for _, o := range firstOptions {
		if _, ok := set[o.name]; !ok {
			set[o.name] = o.value
		}
	}
}

// parseOptions returns the options of a YAML document, and firstOptions that it does not set.
// A value is a string, an int, a float64 or a bool.
func parseOptions(data []byte) (map[string]any, error) {
	set := map[string]any{}
	if err := yaml.Unmarshal(data, &set); err != nil {
		return nil, unusable(err)
	}
	for name, v := range set {
		switch v.(type) {
		case string, int, bool, float64:
		case nil:
			delete(set, name)
		default:
			return nil, fmt.Errorf("cannot read %s: %s is neither text, a number, true nor false; put it in quotes",
				OptionsFile, name)
		}
	}
	addFirst(set)
	return set, nil
}

// checkOptions returns all problems of the options as one error.
func checkOptions(set map[string]any) error {
	known := map[string]bool{databaseOption: true}
	for _, o := range config.Options() {
		known[o.Name] = true
	}
	var bad []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !known[name] {
			bad = append(bad, name+": no such option"+suggest(name, known))
		}
	}
	if text, given := set[databaseOption]; given {
		if _, err := externalDatabase(fmt.Sprint(text)); err != nil {
			bad = append(bad, databaseOption+": "+err.Error())
		}
	}
	_, problems := config.Parse(set, nil)
	for _, p := range problems {
		bad = append(bad, p.String())
	}
	if len(bad) > 0 {
		return &OptionsError{bad}
	}
	return nil
}

// suggest returns the known names that resemble an unknown one.
func suggest(name string, known map[string]bool) string {
	c := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, k := range slices.Sorted(maps.Keys(known)) {
		c.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
	}
	if near := c.SuggestionsFor(name); len(near) > 0 {
		return "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return ""
}

// WriteOptions writes the first OptionsFile: every option of the charm as a comment with its
// default, after the options of a new machine. An existing file stays.
func WriteOptions(h host.Host, charmDir string) error {
	if h.Exists(OptionsFile) {
		return nil
	}
	text, err := firstFile(charmDir)
	if err != nil {
		return err
	}
	if err := h.MkdirAll(path.Dir(OptionsFile), 0o755); err != nil {
		return fmt.Errorf("cannot write %s: %w", OptionsFile, err)
	}
	return h.WriteFile(OptionsFile, text, 0o600)
}

func firstFile(charmDir string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(charmDir, "config.yaml"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the options of this version: %w", err)
	}
	var charm struct {
		Options yaml.Node `yaml:"options"`
	}
	if err := yaml.Unmarshal(data, &charm); err != nil {
		return nil, fmt.Errorf("cannot read the options of this version: %w", err)
	}
	var b bytes.Buffer
	b.WriteString("# Options of concourse-ci-machine. After a change run: sudo concourse-ci-machine up\n" +
		"# `sudo concourse-ci-machine set option=value` changes this file and checks the value first.\n\n")
	for _, o := range firstOptions {
		fmt.Fprintf(&b, "%s: %s\n", o.name, o.value)
	}
	b.WriteString("\n# PostgreSQL server of the web, as postgresql://user:password@host:port/database.\n" +
		"# Without it this machine gets its own PostgreSQL.\n# " + databaseOption + ": \"\"\n")
	for i := 0; i+1 < len(charm.Options.Content); i += 2 {
		var o struct {
			Default     any
			Description string
		}
		if err := charm.Options.Content[i+1].Decode(&o); err != nil {
			return nil, err
		}
		for line := range strings.Lines("\n" + strings.TrimSpace(o.Description) + "\n") {
			if line != "\n" {
				line = "# " + line
			}
			b.WriteString(line)
		}
		value, err := yaml.Marshal(o.Default)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "# %s: %s", charm.Options.Content[i].Value, value)
	}
	return b.Bytes(), nil
}

// Change sets options and applies them. An option in reset gets its default.
func (m *Machine) Change(ctx context.Context, set map[string]string, reset []string) error {
	return m.locked("change the options", func() error {
		if !m.Model.Installed() {
			return errNotUp
		}
		if err := m.Model.change(set, reset); err != nil {
			return err
		}
		if m.Model.state.Down {
			fmt.Fprintln(m.Stdout, "changed; the CI is stopped, and uses it from the next up")
			return nil
		}
		return m.run(ctx, "config-changed")
	})
}

// change sets options of OptionsFile, and removes those in reset. If the result has a
// problem, the file stays as it is.
func (m *Model) change(set map[string]string, reset []string) error {
	data, err := m.Host.ReadFile(OptionsFile)
	if err != nil {
		return fmt.Errorf("cannot change %s: %w; run: sudo concourse-ci-machine up", OptionsFile, err)
	}
	text := string(data)
	for _, name := range reset {
		if text, err = replaceOption(text, name, ""); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if text, err = setOption(text, name, optionValue(name, set[name])); err != nil {
			return err
		}
	}
	options, err := parseOptions([]byte(text))
	if err != nil {
		return err
	}
	if err := checkOptions(options); err != nil {
		return err
	}
	if err := m.Host.WriteFile(OptionsFile, []byte(text), 0o600); err != nil {
		return fmt.Errorf("cannot change %s: %w", OptionsFile, err)
	}
	m.options = options
	return nil
}
