package juju

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

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
