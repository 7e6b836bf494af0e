package onemachine

import (
	"bytes"
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

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
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

// parseOptions returns the options of a YAML document, and firstOptions that it does not
// set. A value is a string, an int, a float64 or a bool. A number, true or false may be in
// quotes.
func parseOptions(data []byte) (map[string]any, error) {
	set := map[string]any{}
	if err := yaml.Unmarshal(data, &set); err != nil {
		return nil, unusable(err)
	}
	for name, v := range set {
		switch v := v.(type) {
		case string:
			set[name] = config.FromText(name, v)
		case int, bool, float64:
		case nil:
			delete(set, name)
		default:
			return nil, fmt.Errorf("cannot read %s: %s is not text, a number, true or false; put it in quotes",
				OptionsFile, name)
		}
	}
	addFirst(set)
	return set, nil
}

// checkOptions returns all problems of the options as one error.
func (m *Model) checkOptions(set map[string]any) error {
	known := optionNames()
	var bad []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !known[name] {
			bad = append(bad, unknownOption(name, known))
		}
	}
	bad = append(bad, m.ownProblems(set)...)
	_, problems := config.Parse(set, nil)
	for _, p := range problems {
		bad = append(bad, p.String())
	}
	if len(bad) > 0 {
		return &OptionsError{bad}
	}
	return nil
}

// ownProblems returns the problems that the charm's own check does not find, because they
// concern only one machine. A change between a web and a worker of another web is one: it
// would remove the web's keys.
func (m *Model) ownProblems(set map[string]any) (bad []string) {
	if text, given := set[databaseOption]; given {
		if _, err := externalDatabase(fmt.Sprint(text)); err != nil {
			bad = append(bad, databaseOption+": "+err.Error())
		}
	}
	switch worker := set["mode"] == string(config.ModeWorker); {
	case worker == (m.state.Web != nil):
	case !worker:
		bad = append(bad, fmt.Sprintf("mode: %q is not possible on a worker of another machine's web; first run: "+
			"sudo concourse-ci-machine purge", set["mode"]))
	case m.Installed():
		bad = append(bad, `mode: "worker" would remove this machine's web with its keys; to join another web, first `+
			"run: sudo concourse-ci-machine purge")
	default:
		bad = append(bad, `mode: "worker" needs another machine's web; give --join, as concourse-ci-machine invite `+
			"prints it there, or set mode to all")
	}
	return bad
}

// optionNames returns the names of all options.
func optionNames() map[string]bool {
	known := map[string]bool{databaseOption: true}
	for _, o := range config.Options() {
		known[o.Name] = true
	}
	return known
}

func unknownOption(name string, known map[string]bool) string {
	return name + ": no such option" + suggest(name, known)
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
