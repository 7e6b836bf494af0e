package juju

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// State returns all that this unit keeps in the controller.
func (t *Tools) State(ctx context.Context) (map[string]string, error) {
	var out map[string]string
	err := t.read(ctx, &out, "state-get", "--format=json")
	return out, err
}

// StateGet returns one value, and whether there is one.
func (t *Tools) StateGet(ctx context.Context, key string) (string, bool, error) {
	var out string
	err := t.read(ctx, &out, "state-get", "--format=json", "--strict", "--", key)
	if errors.Is(err, ErrNotFound) {
		return "", false, nil
	}
	return out, err == nil, err
}

// StateSet keeps values for later hooks, when this one ends well. Juju takes
// keys up to 256 bytes and values up to 64 KiB.
func (t *Tools) StateSet(ctx context.Context, kv map[string]string) error {
	if len(kv) == 0 {
		return nil
	}
	_, err := t.exec(ctx, call{changes: true, stdin: yamlMap(kv)}, "state-set", "--file", "-")
	return err
}

// StateDelete forgets a value; one that is not there is no error.
func (t *Tools) StateDelete(ctx context.Context, key string) error {
	return t.change(ctx, "state-delete", "--", key)
}

// ResourceError says that a resource could not be had. Juju refuses in the
// same way whether none was attached or the download failed, with its own
// words in Err.
type ResourceError struct {
	Name string
	Err  error
}

func (e *ResourceError) Error() string {
	return fmt.Sprintf("cannot get resource %s: %v", e.Name, e.Err)
}

func (e *ResourceError) Unwrap() error { return e.Err }

// ResourceGet downloads a resource where needed and returns its file's path.
// A refusal is a *ResourceError: the caller goes on without the resource.
func (t *Tools) ResourceGet(ctx context.Context, name string) (string, error) {
	out, err := t.exec(ctx, call{deadline: resourceDeadline}, "resource-get", name)
	var refused *ToolError
	if errors.As(err, &refused) && refused.Code == 1 {
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
