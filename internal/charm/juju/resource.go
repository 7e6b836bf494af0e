package juju

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

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
