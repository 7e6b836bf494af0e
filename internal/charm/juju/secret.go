package juju

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// SecretOwner says who may change a secret: every leader of the application,
// or this unit alone.
type SecretOwner string

const (
	OwnerApplication SecretOwner = "application"
	OwnerUnit        SecretOwner = "unit"
)

// Secret is what SecretAdd and SecretSet write. Keys of Content start with a
// letter, have 3 or more lower-case letters, digits and single hyphens (Juju,
// core/secrets keyRegExp); all of it base64 encoded may be 1 MB.
type Secret struct {
	Label       string
	Description string
	Owner       SecretOwner       // "" is the application; SecretSet does not change it
	Content     map[string]string // nil in SecretSet: leave it
}

// SecretGet reads a secret by id ("secret:..." or bare), by label, or by id
// while giving it the label. Without refresh a consumer keeps seeing the
// revision it saw first.
func (t *Tools) SecretGet(ctx context.Context, id, label string, refresh bool) (map[string]string, error) {
	argv := []string{"secret-get", "--format=json"}
	if label != "" {
		argv = append(argv, "--label", label)
	}
	if refresh {
		argv = append(argv, "--refresh")
	}
	if id != "" {
		argv = append(argv, id)
	}
	out, err := t.exec(ctx, call{changes: refresh || (id != "" && label != "")}, argv...)
	if err != nil {
		return nil, err
	}
	var content map[string]string
	return content, decode("secret-get", out, &content)
}

// SecretPeek reads the newest revision of a secret by id and leaves which one
// this unit is told of changes to as it is.
func (t *Tools) SecretPeek(ctx context.Context, id string) (map[string]string, error) {
	var content map[string]string
	return content, t.read(ctx, &content, "secret-get", "--format=json", "--peek", id)
}

// refusals match the answers of secret-get that stay the same until the model changes:
// a malformed id, a missing secret, a missing grant. The texts are those of Juju 3.6
// and 4.1. Everything else, such as a controller or a secret backend that does not
// answer, may be otherwise a moment later.
var refusals = regexp.MustCompile(`^(.*: )?(permission denied|".*" is not allowed to read this secret|secret not found|secret "[^"]*"( revision)? not found)$`)

// SecretRefusal returns Juju's reason if err is a refusal of secret-get, "" if another
// attempt may succeed.
func SecretRefusal(err error) string {
	var e *ToolError
	if errors.As(err, &e) && (e.Code == 2 || e.Code == 1 && refusals.MatchString(e.Text)) {
		return e.Text
	}
	return ""
}

// SecretAdd makes a secret and returns its id, "secret:...". It exists for
// others when the hook ends well.
func (t *Tools) SecretAdd(ctx context.Context, s Secret) (string, error) {
	var id string
	err := withContent(s.Content, func(file ...string) error {
		argv := append([]string{"secret-add"}, s.flags()...)
		if s.Owner != "" {
			argv = append(argv, "--owner", string(s.Owner))
		}
		out, err := t.exec(ctx, call{changes: true}, append(argv, file...)...)
		id = strings.TrimSpace(string(out))
		return err
	})
	return id, err
}

// SecretSet writes a new revision, or only label and description where there
// is no content. Content equal to the present one makes no new revision.
func (t *Tools) SecretSet(ctx context.Context, id string, s Secret) error {
	return withContent(s.Content, func(file ...string) error {
		return t.change(ctx, append(append([]string{"secret-set", id}, s.flags()...), file...)...)
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

// withContent keeps content in memory that has a path while f runs: the tools have
// no stdin for it, their arguments are everybody's to read in /proc, and a file
// would stay where the hook is killed. Juju's agent, root on the same machine,
// opens the path, not the tool. Every value is base64, so that any bytes arrive as
// they are.
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
