package concourse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
)

// Key manages an RSA key pair as Concourse's key options need it: PKCS#1 PEM in Path, 0600,
// and one OpenSSH line in Path.pub, 0644. An existing key is kept. An unusable key is left
// unchanged and reported.
type Key struct {
	Path string
	Bits int // of a new key
}

// Diff implements plan.Resource.
func (k Key) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	data, err := h.ReadFile(k.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return plan.Plan{{Op: "make key " + k.Path, Why: "missing",
			Do: func(context.Context) error { return k.make(h.Root) }}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", k.Path, err)
	}
	line, err := publicLine(k.Path, data)
	if err != nil {
		return plan.Plan{{Op: "use key " + k.Path, Why: "there", Do: func(context.Context) error { return err }}}, nil
	}
	return plan.Diff(ctx, h,
		resource.File{Path: k.Path, Data: data, Mode: 0o600},
		resource.File{Path: k.Path + ".pub", Data: []byte(line + "\n"), Mode: 0o644})
}

// make writes the public half first. A public half without a private one is made again, and
// a private key is never replaced.
func (k Key) make(root host.Root) error {
	private, err := beacon.NewKey(k.Bits)
	if err != nil {
		return err
	}
	line, err := publicLine(k.Path, private)
	if err != nil {
		return err
	}
	if err := root.WriteFile(k.Path+".pub", []byte(line+"\n"), 0o644); err != nil {
		return err
	}
	return root.WriteFile(k.Path, private, 0o600)
}

// KeyProblem returns why Concourse can't use the text of a private key, or "" if it can.
func KeyProblem(private string) string {
	_, problem := beacon.PublicLine([]byte(private))
	return problem
}

// publicLine derives the OpenSSH line of the private key in path.
func publicLine(path string, private []byte) (string, error) {
	line, problem := beacon.PublicLine(private)
	if problem != "" {
		return "", &KeyError{Path: path, Problem: problem}
	}
	return line, nil
}

// KeyError reports a private key that Concourse can't use.
type KeyError struct{ Path, Problem string }

func (e *KeyError) Error() string { return fmt.Sprintf("cannot use %s: %s", e.Path, e.Problem) }

// Remedy returns the cause with a way to fix it.
func (e *KeyError) Remedy(wellknown.Commands) status.Cause {
	return status.Block("cannot use %s", e.Path).
		Explain("%s; put the right key there, or move it away and a new key is made", e.Problem).
		Fix(fmt.Sprintf("on the unit run: sudo mv %s %s.broken", e.Path, e.Path))
}
