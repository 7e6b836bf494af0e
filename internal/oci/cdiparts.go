package oci

import (
	"fmt"
	"slices"
	"strings"

	"concourse-ci-machine/internal/oci/rawjson"
)

func (e *cdiEdits) addMount(v rawjson.Value) (err error) {
	var m cdiMount
	if m.hostPath, err = v.StringOf("hostPath"); err != nil {
		return err
	}
	if m.containerPath, err = v.StringOf("containerPath"); err != nil {
		return err
	}
	if m.kind, err = v.StringOf("type"); err != nil {
		return err
	}
	if m.options, err = v.Strings("options"); err != nil {
		return err
	}
	if !isCleanAbs(m.containerPath) || m.hostPath == "" {
		return fmt.Errorf("containerPath %q is not absolute and clean, or there is no hostPath", m.containerPath)
	}
	for _, o := range m.options {
		// Files that a task makes there would belong to the host's root.
		if strings.HasSuffix(o, "idmap") {
			return fmt.Errorf("%s has the option %s, which would make tasks write as root of the host", m.containerPath, o)
		}
	}
	e.mounts = append(e.mounts, m)
	return nil
}

// hookNames are the lists that the OCI runtime spec has for hooks (config.md).
func hookNames() []string {
	return []string{"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
}

func (e *cdiEdits) addHook(v rawjson.Value) error {
	name, err := v.StringOf("hookName")
	if err != nil {
		return err
	}
	if !slices.Contains(hookNames(), name) {
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
	h := cdiHook{name, append(out, '}')}
	if !slices.ContainsFunc(e.hooks, func(k cdiHook) bool { return k.name == h.name && string(k.json) == string(h.json) }) {
		e.hooks = append(e.hooks, h)
	}
	return nil
}

func (e *cdiEdits) addEnv(v rawjson.Value) error {
	if text := v.Text(); strings.IndexByte(text, '=') > 0 {
		e.env = append(e.env, text)
		return nil
	}
	return fmt.Errorf("%s is not NAME=value", v.Raw())
}

func (e *cdiEdits) addGID(v rawjson.Value) error {
	gid, err := v.Whole(1<<32 - 1)
	if err == nil && gid != 0 { // 0 stands for none (CDI library, Apply)
		e.gids = append(e.gids, uint32(gid))
	}
	return err
}
