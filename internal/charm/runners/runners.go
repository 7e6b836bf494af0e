// Package runners connects CI runners with gpukit. It adds a few lines to the configuration
// of a runner, which name the hooks of the package gpukit, and removes exactly these lines.
// It restarts no runner. It follows no link, because the folder of a runner often belongs to
// the user who runs the jobs.
package runners

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// Dir has the hooks and examples of each kind, from the package gpukit. Runners use them
// there: they belong to root, so that no job can change them.
const Dir = "/usr/share/gpukit/runners"

// recordName is the file in a runner's folder that lists the added lines.
const recordName = ".gpukit-runner.json"

// kind describes a kind of runner.
type kind struct {
	name  string
	way   string // how its jobs lease GPUs, for the list
	has   string // the file by which its folder is recognized
	hooks []string
	files []file
	next  string // advice after the installation
}

// file describes one file of a runner's configuration.
type file struct {
	name string // below the runner's folder
	// start and mode are of a file that is made, because it is missing.
	start string
	mode  fs.FileMode
	edit  func(text string, r host.Root) (after string, put []part, err error)
}

func kinds() []kind {
	return []kind{
		{name: "github", way: "GitHub Actions: two lines in .env, and each job leases GPUs by the runner's job hooks",
			has: "config.sh", hooks: []string{"github/job-started.sh", "github/job-completed.sh"},
			files: []file{{name: ".env", mode: 0o600, edit: githubEnv}},
			next:  "GitHub's runner reads it at its next start; GPUKIT_GPUS=2 in .env changes the number of GPUs"},
		{name: "gitea", way: "Gitea and Forgejo: the option --runtime=amd for containers in config.yaml",
			has: "config.yaml", files: []file{{name: "config.yaml", edit: giteaConfig}},
			next: "the runner reads it at its next start; sudo gpukit runtime configure docker --exclusive --restart"},
		{name: "gitlab", way: "GitLab: lines in config.toml for executors shell and docker",
			has: "config.toml", hooks: []string{"gitlab/lease.sh"},
			files: []file{{name: "config.toml", edit: gitlabConfig}},
			next:  "gitlab-runner reads it by itself; for docker: sudo gpukit runtime configure docker --exclusive --restart"},
		{name: "woodpecker", way: "Woodpecker: the labels of the GPUs in woodpecker-agent.env",
			has: "woodpecker-agent.env", files: []file{{name: "woodpecker-agent.env", edit: woodpeckerEnv}},
			next: "then: sudo systemctl restart woodpecker-agent"},
		{name: "buildkite", way: "Buildkite: a line each in the agent's hooks environment and pre-exit",
			has: "buildkite-agent.cfg", hooks: []string{"buildkite/environment", "buildkite/pre-exit"},
			files: []file{
				{name: "hooks/environment", start: shebang, mode: 0o755, edit: buildkiteHook("environment")},
				{name: "hooks/pre-exit", start: shebang, mode: 0o755, edit: buildkiteHook("pre-exit")},
			},
			next: "the next job reads it"},
	}
}

// Kinds returns the names of the kinds.
func Kinds() (names []string) {
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return names
}

// List returns a line for each kind.
func List() (text string) {
	for _, k := range kinds() {
		text += fmt.Sprintf("%-10s  %s\n", k.name, k.way)
	}
	return text
}

// Request describes a runner to configure.
type Request struct {
	Kind   string
	Path   string // its folder, absolute
	Remove bool
}

// Want returns the change of a runner's configuration, and advice to show after it.
func Want(r host.Root, q Request) (change plan.Resource, advice string, err error) {
	i := slices.IndexFunc(kinds(), func(k kind) bool { return k.name == q.Kind })
	if i < 0 {
		return nil, "", fmt.Errorf("cannot configure a runner of the kind %q: want one of %s", q.Kind,
			strings.Join(Kinds(), ", "))
	}
	k := kinds()[i]
	if q.Remove {
		return resource{kind: k, path: q.Path, remove: true}, "", nil
	}
	for _, hook := range k.hooks {
		if !r.Exists(path.Join(Dir, hook)) {
			return nil, "", fmt.Errorf("cannot install %s: %s is missing; install the package gpukit", k.name,
				path.Join(Dir, hook))
		}
	}
	return resource{kind: k, path: q.Path}, k.next, nil
}

// record lists what an installation added to the files of a runner.
type record struct {
	Kind  string             `json:"kind"`
	Files map[string]changes `json:"files"`
}

// resource makes or undoes the changes of a runner's configuration.
type resource struct {
	kind   kind
	path   string
	remove bool
}

// Diff implements plan.Resource.
func (c resource) Diff(_ context.Context, h host.Host) (p plan.Plan, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot %s %s in %s: %w", c.verb(), c.kind.name, c.path, err)
		}
	}()
	dir, err := openFolder(h.Root, c.path)
	if err != nil {
		return nil, err
	}
	defer dir.close()
	had, err := c.readRecord(dir)
	if err != nil || c.remove && had == nil {
		return nil, err
	}
	if had == nil {
		had = &record{}
	}
	next := record{Kind: c.kind.name, Files: map[string]changes{}}
	for _, f := range c.kind.files {
		steps, made, err := c.file(h, dir, f, had.Files[f.name])
		if err != nil {
			return nil, err
		}
		if len(made.Parts) > 0 {
			next.Files[f.name] = made
		}
		p = append(p, steps...)
	}
	if c.remove {
		return append(p, c.step(h, "remove", recordName, "nothing is left to undo", nil,
			func(d folder, name string) error { return d.remove(name) })), nil
	}
	data, err := json.MarshalIndent(next, "", "  ")
	if err != nil || len(p) == 0 {
		return p, err
	}
	// The record is first, because removing lines that a file does not have does no harm.
	return slices.Insert(p, 0, c.step(h, "write", recordName, "for gpukit runners remove", nil,
		func(d folder, name string) error { return d.write(name, append(data, '\n'), 0o600) })), nil
}

func (c resource) verb() string {
	if c.remove {
		return "remove"
	}
	return "install"
}

// readRecord returns the record of an earlier installation, nil without one. It checks that
// the folder is a runner's of this kind.
func (c resource) readRecord(dir folder) (*record, error) {
	if !c.remove && !dir.exists(c.kind.has) {
		return nil, fmt.Errorf("it has no file %s; --path names the folder of the runner that has it", c.kind.has)
	}
	data, _, err := dir.read(recordName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	rec := &record{}
	if err == nil {
		err = json.Unmarshal(data, rec)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: %w", recordName, err)
	case rec.Kind != c.kind.name:
		return nil, fmt.Errorf("it is configured as %s; first run: gpukit runners remove %[1]s --path=%s",
			rec.Kind, c.path)
	}
	return rec, nil
}

// file returns the step that changes one file, and the changes that it then has.
func (c resource) file(h host.Host, dir folder, f file, had changes) (p plan.Plan, made changes, err error) {
	in, name, err := dir.below(f.name)
	if err != nil {
		return nil, made, err
	}
	defer in.close()
	data, st, err := in.read(name)
	if missing := errors.Is(err, fs.ErrNotExist); err != nil && !missing {
		return nil, made, err
	} else if missing {
		st.mode, had = f.mode, changes{Made: !c.remove}
	}
	now := string(data)
	base, left := had.undo(now)
	if c.remove {
		p := plan.Plan{}
		switch {
		case had.Made && base == f.start && left == 0 && now != "":
			p = append(p, c.step(h, "remove", f.name, "it was not there before", had.lines("-", "+"),
				func(d folder, name string) error { return d.remove(name) }))
		case base != now:
			p = append(p, c.step(h, "write", f.name, "as it was before"+leftText(left), had.lines("-", "+"),
				func(d folder, name string) error { return d.replace(name, []byte(base), st) }))
		}
		return p, made, nil
	}
	if base == "" {
		base = f.start
	}
	after, put, err := f.edit(base, h.Root)
	if err != nil {
		return nil, made, err
	}
	made = changes{Made: had.Made, Parts: put}
	if after == now {
		return nil, made, nil
	}
	return plan.Plan{c.step(h, "write", f.name, "the rest stays", made.lines("+", "-"),
		func(d folder, name string) error { return d.replace(name, []byte(after), st) })}, made, nil
}

func leftText(left int) string {
	if left == 0 {
		return ""
	}
	return "; changed lines are kept"
}

// step returns a step that changes one file of the runner's folder. It opens the folder
// again, because time passes between the plan and the step.
func (c resource) step(h host.Host, op, name, why string, diff []byte, do func(folder, string) error) plan.Step {
	return plan.Step{Op: op + " " + path.Join(c.path, name), Why: why, Content: diff,
		Do: func(context.Context) error {
			dir, err := openFolder(h.Root, c.path)
			if err != nil {
				return err
			}
			defer dir.close()
			in, base, err := dir.below(name)
			if err != nil {
				return err
			}
			defer in.close()
			return do(in, base)
		}}
}
