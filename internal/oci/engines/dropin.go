package engines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
)

// mark is the first line of a file of our own: a file without it is somebody else's.
const mark = "# Made by: dispatch runtime configure. With --remove it goes.\n"

// dropIn is a file of our own that the engine reads besides its others.
type dropIn struct {
	path      string
	runtime   string // its text without a default, and what makes the default
	asDefault string
	is        Default
	first     string // what has to stand before all tables
}

// Podman merges the tables of all its files (containers.conf(5)).
func wantPodman(_ context.Context, _ host.Host, r Request) (plan.Resource, error) {
	return dropIn{path: r.File, runtime: fmt.Sprintf("[engine.runtimes]\n%s = [\"%s\"]\n", Name, r.Wrapper),
		asDefault: fmt.Sprintf("[engine]\nruntime = \"%s\"\n", Name), is: r.Default}, nil
}

// CRI-O reads its folder after crio.conf (crio.conf.d(5)).
func wantCRIO(_ context.Context, _ host.Host, r Request) (plan.Resource, error) {
	return dropIn{path: r.File, runtime: fmt.Sprintf("[crio.runtime.runtimes.%s]\nruntime_path = \"%s\"\nruntime_type = \"oci\"\n", Name, r.Wrapper),
		asDefault: fmt.Sprintf("[crio.runtime]\ndefault_runtime = \"%s\"\n", Name), is: r.Default}, nil
}

// Diff implements plan.Resource.
func (d dropIn) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	now, err := readOwn(h.Root, d.path)
	if err != nil {
		return nil, err
	}
	text := d.runtime
	if d.is == Set || d.is == AsIs && strings.Contains(now, d.asDefault) {
		text = d.asDefault + text
	}
	return resource.File{Path: d.path, Data: []byte(mark + d.first + text), Mode: 0o644}.Diff(ctx, h)
}

// readOwn reads a file of our own; "" where there is none.
func readOwn(r host.Root, path string) (string, error) {
	data, err := r.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("cannot read %s: %w", path, err)
	case !strings.HasPrefix(string(data), mark):
		return "", fmt.Errorf("cannot use %s: somebody else made it, as its first line says nothing of dispatch; move it away", path)
	}
	return string(data), nil
}

// noDropIn takes a file of our own away. A person may have written more into it: they
// were told in its first line.
type noDropIn struct{ path string }

func goneDropIn(r Request) plan.Resource { return noDropIn{r.File} }

// Diff implements plan.Resource.
func (d noDropIn) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	now, err := readOwn(h.Root, d.path)
	if err != nil || now == "" {
		return nil, err
	}
	return plan.Plan{{Op: "remove " + d.path, Why: "--remove", Do: func(context.Context) error { return h.Remove(d.path) }}}, nil
}
