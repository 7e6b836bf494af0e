package edits

import "concourse-ci-machine/internal/base/rawjson"

// Hook is one of hooks (config.md).
type Hook struct {
	Name string // of the list in hooks
	JSON []byte
}

// HookNames are the lists that hooks has.
func HookNames() []string {
	return []string{"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
}

func (e *Edits) applyHooks(root *rawjson.Node) error {
	if len(e.Hooks) == 0 {
		return nil
	}
	hooks, err := root.At("hooks")
	if err != nil {
		return err
	}
	for _, name := range HookNames() {
		var own [][]byte
		for _, h := range e.Hooks {
			if h.Name == name {
				own = append(own, h.JSON)
			}
		}
		if err := hooks.Append(name, own, nil); err != nil {
			return err
		}
	}
	return nil
}
