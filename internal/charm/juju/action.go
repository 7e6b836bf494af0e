package juju

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

// ActionGet returns the action's parameters with the defaults of actions.yaml. Values are
// decoded JSON, whole numbers as int64.
func (t *Tools) ActionGet(ctx context.Context) (map[string]any, error) {
	return t.readValues(ctx, "action-get")
}

// ActionSet adds to the action's results. Maps and lists become key paths ("gpus.0.name").
// Juju stores only text. It accepts keys of lower-case letters, digits and hyphens, except
// stdout and stderr. A value that is too long for an argument is cut, with a note at its
// end. Spaces at the end of a line are removed: with one `juju run` prints the whole text
// quoted and folded. Results must not contain secrets: they are arguments, and the caller sees
// them.
func (t *Tools) ActionSet(ctx context.Context, results map[string]any) error {
	flat := map[string]string{}
	flatten(flat, "", results)
	// As few calls as possible, each within the kernel's limit of arguments.
	argv, size := []string{"action-set", "--"}, 0
	for _, k := range slices.Sorted(maps.Keys(flat)) {
		arg := k + "=" + flat[k]
		if size > 0 && size+len(arg) > 8*maxArg {
			if err := t.change(ctx, argv...); err != nil {
				return err
			}
			argv, size = []string{"action-set", "--"}, 0
		}
		argv, size = append(argv, arg), size+len(arg)
	}
	if size == 0 {
		return nil
	}
	return t.change(ctx, argv...)
}

var trailing = lazyregexp.New(`(?m)[ \t]+$`)

func flatten(into map[string]string, at string, v any) {
	below := func(k string) string {
		if at == "" {
			return k
		}
		return at + "." + k
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			flatten(into, below(k), x)
		}
	case map[string]string:
		for k, x := range v {
			flatten(into, below(k), x)
		}
	case []any:
		for i, x := range v {
			flatten(into, below(fmt.Sprint(i)), x)
		}
	case []string:
		for i, x := range v {
			flatten(into, below(fmt.Sprint(i)), x)
		}
	default:
		text, rest := cut(trailing().ReplaceAllString(fmt.Sprint(v), ""), 2*maxArg)
		if rest != "" {
			text += fmt.Sprintf("\n[cut: %d bytes more]", len(rest))
		}
		into[at] = text
	}
}

// ActionFail marks the action as failed. The charm still exits 0.
func (t *Tools) ActionFail(ctx context.Context, message string) error {
	head, _ := cut(message, maxArg)
	return t.change(ctx, "action-fail", "--", head)
}

// ActionLog shows a line of progress to the caller of the action.
func (t *Tools) ActionLog(ctx context.Context, message string) error {
	head, _ := cut(message, maxArg)
	return t.change(ctx, "action-log", "--", head)
}
