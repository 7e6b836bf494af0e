package jujutest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	errNoAction  = errors.New("not running an action")
	actionKey    = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$`)
	reservedKeys = []string{"stdout", "stdout-encoding", "stderr", "stderr-encoding"}
)

func actionGet(i *invocation) error {
	if err := i.noMore(1); err != nil {
		return err
	}
	if i.action == nil {
		return errNoAction
	}
	var at any = i.action.Params
	if len(i.args) > 0 {
		for _, key := range strings.Split(i.args[0], ".") {
			m, _ := at.(map[string]any)
			at = m[key]
		}
	}
	return i.print(at)
}

func actionSet(i *invocation) error {
	for _, a := range i.args {
		path, _, ok := strings.Cut(a, "=")
		if !ok {
			return usagef("argument %q must be of the form key...=value", a)
		}
		for _, key := range strings.Split(path, ".") {
			if !actionKey.MatchString(key) {
				return usagef("key %q must start and end with lowercase alphanumeric, and contain only lowercase "+
					"alphanumeric and hyphens", key)
			}
			if slices.Contains(reservedKeys, key) {
				return usagef("cannot set reserved action key %q", key)
			}
		}
	}
	if i.action == nil && len(i.args) > 0 {
		return errNoAction
	}
	for _, a := range i.args {
		path, value, _ := strings.Cut(a, "=")
		keys := strings.Split(path, ".")
		at := i.action.Results
		for _, key := range keys[:len(keys)-1] {
			next, ok := at[key].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[key] = next
			}
			at = next
		}
		at[keys[len(keys)-1]] = value
	}
	return nil
}

func actionFail(i *invocation) error {
	if err := i.noMore(1); err != nil {
		return err
	}
	if i.action == nil {
		return errNoAction
	}
	i.action.Status, i.action.Message = "failed", i.arg(0)
	if len(i.args) == 0 {
		i.action.Message = "action failed without reason given, check action for errors"
	}
	return nil
}

func actionLog(i *invocation) error {
	if len(i.args) == 0 {
		return usagef("no message specified")
	}
	if i.action == nil {
		return errNoAction
	}
	i.action.Log = append(i.action.Log, strings.Join(i.args, " "))
	return nil
}

const (
	maxStateKey   = 256
	maxStateValue = 65536
)

func stateGet(i *invocation) error {
	key := i.arg(0)
	if key == "-" {
		key = ""
	}
	if err := i.noMore(1); err != nil {
		return err
	}
	if key == "" && len(i.book.State) == 0 {
		return i.print(map[string]string(nil)) // Juju prints null
	}
	if key == "" {
		return i.print(i.book.State)
	}
	v, ok := i.book.State[key]
	if !ok && i.isSet("strict") {
		return fmt.Errorf("%q not found", key)
	}
	return i.print(v)
}

func stateSet(i *invocation) error {
	kv, err := pairs(i.args)
	if err != nil {
		return err
	}
	if kv, err = i.withFile(kv); err != nil {
		return err
	}
	for k, v := range kv {
		if len(k) > maxStateKey {
			return fmt.Errorf("max allowed key length (%d) exceeded", maxStateKey)
		}
		if len(v) > maxStateValue {
			return fmt.Errorf("max allowed value length (%d) exceeded", maxStateValue)
		}
		i.book.State[k] = v
	}
	return nil
}

func stateDelete(i *invocation) error {
	if err := i.noMore(1); err != nil {
		return err
	}
	delete(i.book.State, i.arg(0))
	return nil
}
