package juju

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

// Secret describes a secret for SecretAdd and SecretSet. A key of Content has 3 or more
// lower-case letters, digits and single hyphens, and begins with a letter (Juju,
// core/secrets keyRegExp). The base64 of Content may have 1 MB.
type Secret struct {
	Label       string
	Description string
	Content     map[string]string // nil in SecretSet to keep the content
}

// SecretGet reads a secret by id ("secret:..." or without the scheme). Each call returns the
// revision of the first one, see SecretRefresh.
func (t *Tools) SecretGet(ctx context.Context, id string) (content map[string]string, err error) {
	return content, t.read(ctx, &content, "secret-get", "--format=json", id)
}

// SecretRefresh reads the newest revision of a secret by id, and tracks it.
func (t *Tools) SecretRefresh(ctx context.Context, id string) (map[string]string, error) {
	out, err := t.exec(ctx, call{changes: true}, "secret-get", "--format=json", "--refresh", id)
	if err != nil {
		return nil, err
	}
	var content map[string]string
	return content, decode("secret-get", out, &content)
}

// SecretPeek reads the newest revision of a secret by id, and does not change the tracked
// revision.
func (t *Tools) SecretPeek(ctx context.Context, id string) (map[string]string, error) {
	var content map[string]string
	return content, t.read(ctx, &content, "secret-get", "--format=json", "--peek", id)
}

// refusals match the answers of secret-get that stay the same until the model changes: an
// invalid id, a missing secret, a missing grant. The texts are from Juju 3.6 and 4.1. All
// other answers, for example if a controller or a secret backend is down, may change soon.
var refusals = lazyregexp.New(`^(.*: )?(permission denied|".*" is not allowed to read this secret|` +
	`secret not found|secret "[^"]*"( revision)? not found)$`)

// SecretRefusal returns Juju's reason if err is a refusal of secret-get, "" if another
// attempt may succeed.
func SecretRefusal(err error) string {
	if e, ok := errors.AsType[*ToolError](err); ok && (e.Code == 2 || e.Code == 1 && refusals().MatchString(e.Text)) {
		return e.Text
	}
	return ""
}

// SecretAdd creates a secret of the application and returns its id, "secret:...". Others can read
// it after the hook has succeeded.
func (t *Tools) SecretAdd(ctx context.Context, s Secret) (string, error) {
	var id string
	err := withContent(s.Content, func(file ...string) error {
		out, err := t.exec(ctx, call{changes: true}, slices.Concat([]string{"secret-add"}, s.flags(), file)...)
		id = strings.TrimSpace(string(out))
		return err
	})
	return id, err
}

// SecretSet writes a new revision. Without content it changes only label and description.
// The same content as before makes no new revision.
func (t *Tools) SecretSet(ctx context.Context, id string, s Secret) error {
	return withContent(s.Content, func(file ...string) error {
		return t.change(ctx, slices.Concat([]string{"secret-set", id}, s.flags(), file)...)
	})
}

func (s Secret) flags() (argv []string) {
	if s.Label != "" {
		argv = append(argv, "--label", s.Label)
	}
	if s.Description != "" {
		argv = append(argv, "--description", s.Description)
	}
	return argv
}

// withContent puts content into an in-memory file while f runs. The tools do not read it
// from stdin, every user can read arguments in /proc, and a real file would remain after a
// killed hook. Juju's agent, which is root on the same machine, opens the path. Values are
// base64, so that any bytes are allowed.
func withContent(content map[string]string, f func(file ...string) error) error {
	if len(content) == 0 {
		return f()
	}
	encoded := make(map[string]string, len(content))
	for k, v := range content {
		encoded[k+"#base64"] = base64.StdEncoding.EncodeToString([]byte(v))
	}
	data, err := json.Marshal(encoded)
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("secret", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("cannot hand over a secret: %w", os.NewSyscallError("memfd_create", err))
	}
	memory := os.NewFile(uintptr(fd), "secret")
	defer memory.Close()
	if err := memory.Chmod(0o600); err != nil {
		return fmt.Errorf("cannot hand over a secret: %w", err)
	}
	if _, err := memory.Write(data); err != nil {
		return fmt.Errorf("cannot hand over a secret: %w", err)
	}
	return f("--file", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd))
}
