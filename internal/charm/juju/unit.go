package juju

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Config returns the options with a value, set or by default. Values are string, int64,
// float64 or bool.
func (t *Tools) Config(ctx context.Context) (map[string]any, error) {
	return t.readValues(ctx, "config-get")
}

// readValues runs a tool with an object as output. Whole numbers become int64.
func (t *Tools) readValues(ctx context.Context, tool string) (map[string]any, error) {
	var out map[string]any
	if err := t.read(ctx, &out, tool, "--format=json"); err != nil {
		return nil, err
	}
	for k, v := range out {
		if n, ok := v.(json.Number); ok {
			out[k] = number(n)
		}
	}
	return out, nil
}

func number(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	return f
}

// IsLeader reports whether this unit leads its application for the next 30 s.
func (t *Tools) IsLeader(ctx context.Context) (bool, error) {
	var out bool
	err := t.read(ctx, &out, "is-leader", "--format=json")
	return out, err
}

// Reboot requests a reboot of the machine after this hook.
func (t *Tools) Reboot(ctx context.Context) error { return t.change(ctx, "juju-reboot") }

// ResourceError reports that a resource is not available. Juju's answer is the same if none
// was attached and if the download failed. Err has Juju's message.
type ResourceError struct {
	Name string
	Err  error
}

func (e *ResourceError) Error() string {
	return fmt.Sprintf("cannot get resource %s: %v", e.Name, e.Err)
}

func (e *ResourceError) Unwrap() error { return e.Err }

// ResourceGet downloads a resource if necessary and returns the path of its file. If Juju
// refuses, it returns a *ResourceError, and the caller can continue without the resource.
func (t *Tools) ResourceGet(ctx context.Context, name string) (string, error) {
	out, err := t.exec(ctx, call{deadline: resourceDeadline}, "resource-get", name)
	if refused, ok := errors.AsType[*ToolError](err); ok && refused.Code == 1 {
		return "", &ResourceError{Name: name, Err: refused}
	}
	if err != nil {
		return "", err
	}
	path := strings.TrimSpace(string(out))
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("cannot get resource %s: resource-get printed %q, not a path", name, path)
	}
	return path, nil
}
