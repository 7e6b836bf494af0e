package cdispec

import (
	"fmt"
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/gpu/cdispec/edits"
)

func (e *Edits) addMount(v rawjson.Value) (err error) {
	var m edits.Mount
	if m.Source, err = v.StringOf("hostPath"); err != nil {
		return err
	}
	if m.Destination, err = v.StringOf("containerPath"); err != nil {
		return err
	}
	if m.Type, err = v.StringOf("type"); err != nil {
		return err
	}
	if m.Options, err = v.Strings("options"); err != nil {
		return err
	}
	if !isCleanAbs(m.Destination) || m.Source == "" {
		return fmt.Errorf("containerPath %q is not absolute and clean, or there is no hostPath", m.Destination)
	}
	for _, o := range m.Options {
		// Files that a task makes there would belong to the host's root.
		if strings.HasSuffix(o, "idmap") {
			return fmt.Errorf("%s has the option %s, which would make tasks write as root of the host", m.Destination,
				o)
		}
	}
	e.Mounts = append(e.Mounts, m)
	return nil
}

// addHook passes a hook on as it was written, less the member hookName.
func (e *Edits) addHook(v rawjson.Value) error {
	name, err := v.StringOf("hookName")
	if err != nil {
		return err
	}
	if !slices.Contains(edits.HookNames(), name) {
		return fmt.Errorf("there is no hook %q", name)
	}
	path, err := v.StringOf("path")
	if err != nil {
		return err
	}
	if !isCleanAbs(path) {
		return fmt.Errorf("path %q of hook %s is not absolute and clean", path, name)
	}
	out := rawjson.AppendString([]byte(`{"path":`), path)
	for _, list := range []string{"args", "env"} {
		texts, err := v.Strings(list)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(texts) > 0 {
			out = rawjson.AppendStrings(append(append(append(out, `,"`...), list...), `":`...), texts)
		}
	}
	timeout, err := v.Of("timeout", rawjson.Number)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !timeout.None() {
		if _, err := timeout.Whole(1 << 31); err != nil {
			return fmt.Errorf("%s: timeout: %w", name, err)
		}
		out = append(append(out, `,"timeout":`...), timeout.Raw()...)
	}
	h := edits.Hook{Name: name, JSON: append(out, '}')}
	if !slices.ContainsFunc(e.Hooks, func(k edits.Hook) bool {
		return k.Name == h.Name &&
			string(k.JSON) == string(h.JSON)
	}) {
		e.Hooks = append(e.Hooks, h)
	}
	return nil
}

func (e *Edits) addEnv(v rawjson.Value) error {
	if text := v.Text(); strings.IndexByte(text, '=') > 0 {
		e.Env = append(e.Env, text)
		return nil
	}
	return fmt.Errorf("%s is not NAME=value", v.Raw())
}

func (e *Edits) addGID(v rawjson.Value) error {
	gid, err := v.Whole(1<<32 - 1)
	if err == nil && gid != 0 { // 0 stands for none (CDI library, Apply)
		e.GIDs = append(e.GIDs, uint32(gid))
	}
	return err
}
