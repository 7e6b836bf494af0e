package engines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

// mark is the first line of our files. A file without it belongs to another program.
const mark = "# Written by runtime configure of concourse-ci-machine; --remove deletes this file.\n"

// dropIn describes a separate file that the engine reads in addition to its own.
type dropIn struct {
	path      string
	engine    string // names the record of new folders; "" without one, as for a user's file
	runtime   string // text without the default, which asDefault adds
	asDefault string
	byDefault Default
	first     string // must come before all tables
}

// recordEngine returns the engine of a request for root.
func recordEngine(r Request) string {
	if r.UserConfig != "" {
		return ""
	}
	return r.Engine
}

// wantPodman writes a separate file, because Podman merges the tables of all its files
// (containers.conf(5)).
func wantPodman(_ context.Context, _ host.Host, r Request) (plan.Resource, error) {
	return dropIn{path: r.File, engine: recordEngine(r), runtime: fmt.Sprintf("[engine.runtimes]\n%s = [\"%s\"]\n", Name, r.Wrapper),
		asDefault: fmt.Sprintf("[engine]\nruntime = \"%s\"\n", Name), byDefault: r.Default}, nil
}

// wantCRIO writes a separate file, because CRI-O reads its folder after crio.conf
// (crio.conf.d(5)).
func wantCRIO(_ context.Context, _ host.Host, r Request) (plan.Resource, error) {
	return dropIn{path: r.File, engine: recordEngine(r), runtime: fmt.Sprintf("[crio.runtime.runtimes.%s]\nruntime_path = "+
		"\"%s\"\nruntime_type = \"oci\"\n", Name, r.Wrapper),
		asDefault: fmt.Sprintf("[crio.runtime]\ndefault_runtime = \"%s\"\n", Name), byDefault: r.Default}, nil
}

// Diff implements plan.Resource.
func (d dropIn) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	now, err := readOwn(h.Root, d.path)
	if err != nil {
		return nil, err
	}
	text := d.runtime
	if d.byDefault == Set || d.byDefault == AsIs && strings.Contains(now, d.asDefault) {
		text = d.asDefault + text
	}
	p, err := resource.File{Path: d.path, Data: []byte(mark + d.first + text), Mode: 0o644}.Diff(ctx, h)
	for i := range p {
		write := p[i].Do
		p[i].Do = func(ctx context.Context) error {
			if made := missingFolders(h.Root, d.path); len(made) > 0 && d.engine != "" {
				if err := writeRecord(h, d.engine, record{File: d.path, Made: made}); err != nil {
					return err
				}
			}
			return write(ctx)
		}
	}
	return p, err
}

// readOwn reads one of our files and returns "" if it is missing.
func readOwn(r host.Root, path string) (string, error) {
	data, err := r.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("cannot read %s: %w", path, err)
	case !strings.HasPrefix(string(data), mark):
		return "", fmt.Errorf("cannot use %s: its first line is not of runtime configure; "+
			"move it away", path)
	}
	return string(data), nil
}

// noDropIn removes one of our files, with anything that was added by hand. Its first line
// warns of this.
type noDropIn struct{ path, engine string }

func removeDropIn(r Request) plan.Resource { return noDropIn{r.File, recordEngine(r)} }

// Diff implements plan.Resource.
func (d noDropIn) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	now, err := readOwn(h.Root, d.path)
	if err != nil || now == "" {
		return nil, err
	}
	return plan.Plan{{Op: "remove " + d.path, Why: "--remove",
		Do: func(context.Context) error { return d.remove(h) }}}, nil
}

// remove removes the file, and the folders that were made for it.
func (d noDropIn) remove(h host.Host) error {
	if err := h.Remove(d.path); err != nil || d.engine == "" {
		return err
	}
	rec, err := readRecord(h.Root, d.engine)
	if err != nil || rec == nil || rec.File != d.path {
		return err
	}
	return errors.Join(removeFolders(h, rec.Made), removeRecord(h, d.engine))
}
