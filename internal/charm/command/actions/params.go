package actions

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// params are the action's parameters. One that actions.yaml does not name is
// refused here, too: what Juju lets through differs between its versions, and a
// misspelt parameter must not run the action as if it had not been given.
func (c *Actions) params(ctx context.Context) (map[string]any, error) {
	given, err := c.Tools.ActionGet(ctx)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(c.CharmDir, "actions.yaml"))
	if err != nil {
		return nil, fmt.Errorf("cannot check the action's parameters: %w", err)
	}
	var declared map[string]struct{ Params map[string]any }
	if err := yaml.Unmarshal(data, &declared); err != nil {
		return nil, fmt.Errorf("cannot check the action's parameters: actions.yaml: %w", err)
	}
	name := c.Event.Action.Name
	known := declared[name].Params
	for _, p := range slices.Sorted(maps.Keys(given)) {
		if _, ok := known[p]; ok {
			continue
		}
		takes := "takes none"
		if len(known) > 0 {
			takes = "takes " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
		}
		return nil, fmt.Errorf("cannot run %s with the parameter %q: it %s; nothing was done", name, p, takes)
	}
	return given, nil
}
