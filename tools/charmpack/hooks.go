package charmpack

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// shimScript is the one real file in hooks/. The others link to it.
const shimScript = "install"

// unitHooks are the hooks of every machine charm (charm/v12 hooks/hooks.go). It leaves out
// collect-metrics and meter-status-changed, which need a metrics.yaml, and leader-deposed,
// which the unit agent never starts.
var unitHooks = []string{
	"config-changed", "install", "leader-elected", "leader-settings-changed",
	"post-series-upgrade", "pre-series-upgrade", "remove", "secret-changed",
	"secret-expired", "secret-remove", "secret-rotate", "start", "stop",
	"update-status", "upgrade-charm",
}

// HookNames returns, sorted, every hook of a charm with these relation endpoints and
// storages.
func HookNames(relations, storages []string) []string {
	names := slices.Clone(unitHooks)
	for _, r := range relations {
		for _, kind := range []string{"created", "joined", "changed", "departed", "broken"} {
			names = append(names, r+"-relation-"+kind)
		}
	}
	for _, s := range storages {
		names = append(names, s+"-storage-attached", s+"-storage-detaching")
	}
	slices.Sort(names)
	return names
}

func (s Source) hookNames() ([]string, error) {
	m, err := s.metadata()
	if err != nil {
		return nil, err
	}
	var relations []string
	for _, group := range []map[string]relation{m.Provides, m.Requires, m.Peers} {
		relations = slices.AppendSeq(relations, maps.Keys(group))
	}
	return HookNames(relations, slices.Collect(maps.Keys(m.Storage))), nil
}

// LinkHooks updates hooks/ in the tree to the script and one link for each hook. It removes
// other files and returns the added hooks.
func (s Source) LinkHooks() (added []string, err error) {
	names, err := s.hookNames()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Root, "hooks")
	have, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read hooks: %w", err)
	}
	for _, e := range have {
		if slices.Contains(names, e.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return nil, fmt.Errorf("cannot remove a hook that Juju does not name: %w", err)
		}
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil || name == shimScript {
			continue
		}
		if err := os.Symlink(shimScript, filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("cannot link hook %s: %w", name, err)
		}
		added = append(added, name)
	}
	return added, nil
}
