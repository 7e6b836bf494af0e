package workstation

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
)

// OptionsFile has the variables of the package's services.
const OptionsFile = "/etc/default/gpukit"

// options lists the options of a unit that a machine without one has, too. The others are
// about tasks, or need Juju.
var options = []string{"gpu-quarantine", "gpu-health-check"}

// variable returns the name of an option in OptionsFile.
func variable(option string) string {
	return "GPUKIT_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// Options returns the options that OptionsFile sets, as config-get returns those of a unit.
// Their values are not checked, see CheckOptions.
func Options(r host.Root) (map[string]any, error) {
	data, err := r.ReadFile(OptionsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the options of the GPUs: %w", err)
	}
	set := map[string]any{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		at := slices.IndexFunc(options, func(option string) bool { return variable(option) == name })
		if value = strings.Trim(value, `"' `); at >= 0 && value != "" {
			set[options[at]] = config.FromText(options[at], value)
		}
	}
	return set, nil
}

// CheckOptions returns an error for each option in OptionsFile that is invalid.
func CheckOptions(r host.Root) error {
	set, err := Options(r)
	if err != nil {
		return err
	}
	_, problems := config.Parse(set, nil)
	for _, p := range problems {
		if slices.Contains(options, p.Option) {
			err = errors.Join(err, fmt.Errorf("cannot use %s in %s: %s", variable(p.Option), OptionsFile, p.Text))
		}
	}
	return err
}
