// Package engines makes AMD's GPUs known to container engines other than Concourse's:
// Docker, Podman, containerd and CRI-O. It adds the wrapper as a runtime "amd" to an
// engine's configuration, and CDI where the engine has to be told of it: as a file of its
// own where the engine reads such ones, else by a few keys in the engine's file, whose
// other bytes stay. It takes back what it added and nothing else, and restarts nothing
// by itself.
package engines

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
)

// Name is what the runtime is called in every engine, as AMD's toolkit calls its own.
const Name = "amd"

// Default says whether containers that name no runtime get this one.
type Default int

// As it is now, set, and taken back.
const (
	AsIs Default = iota
	Set
	Unset
)

// Request is what a person asks for.
type Request struct {
	Engine  string
	Wrapper string // absolute path of runc-amd-wrapper; not needed to remove
	// File is the engine's configuration, or the own file for an engine that reads a
	// folder of them; "" is where the engine looks for it.
	File    string
	Default Default
	Remove  bool
	Restart bool
	// UserConfig is the folder of a user's configuration, "" for root's: of podman.
	UserConfig string
}

// engine is what differs.
type engine struct {
	name    string
	file    string
	reload  []string // what makes it read its configuration; nil: it does at each start
	want    func(ctx context.Context, h host.Host, r Request) (plan.Resource, error)
	gone    func(r Request) plan.Resource
	example string
}

func all() []engine {
	return []engine{
		{"docker", "/etc/docker/daemon.json", []string{"systemctl", "reload", "docker"}, wantDocker, goneDocker,
			"docker run --rm --runtime amd -e AMD_VISIBLE_DEVICES=0 IMAGE"},
		{"podman", "/etc/containers/containers.conf.d/50-amd-gpu.conf", nil, wantPodman, goneDropIn,
			"podman run --rm --device amd.com/gpu=0 IMAGE, or --runtime amd -e AMD_VISIBLE_DEVICES=0"},
		{"containerd", "/etc/containerd/config.toml", []string{"systemctl", "restart", "containerd"}, wantContainerd, goneContainerd,
			"a pod with the RuntimeClass of the handler amd, and AMD_VISIBLE_DEVICES=0"},
		{"crio", "/etc/crio/crio.conf.d/50-amd-gpu.conf", []string{"systemctl", "restart", "crio"}, wantCRIO, goneDropIn,
			"a pod with the RuntimeClass of the handler amd, and AMD_VISIBLE_DEVICES=0"},
	}
}

// Names are the engines that there is something for.
func Names() (names []string) {
	for _, e := range all() {
		names = append(names, e.name)
	}
	return names
}

// Want is what has to be there, and what a person has to know of it when it is.
func Want(ctx context.Context, h host.Host, r Request) (want []plan.Resource, advice []string, err error) {
	var e engine
	for _, known := range all() {
		if known.name == r.Engine {
			e = known
		}
	}
	if e.name == "" {
		return nil, nil, fmt.Errorf("cannot configure %q: want one of %s", r.Engine, strings.Join(Names(), ", "))
	}
	if r.File == "" {
		r.File = e.file
		if r.UserConfig != "" {
			r.File = path.Join(r.UserConfig, strings.TrimPrefix(e.file, "/etc/"))
		}
	}
	if e.name == "docker" && (r.Remove || r.Default == Unset) {
		e.reload = []string{"systemctl", "restart", "docker"} // a key that is gone changes nothing in a dockerd that runs
	}
	var resource plan.Resource
	if !r.Remove {
		err = usable(h.Root, r.Wrapper)
	}
	if err == nil {
		resource, err = e.resource(ctx, h, r)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot configure %s: %w", e.name, err)
	}
	want = []plan.Resource{resource}
	switch {
	case e.reload == nil:
	case r.Restart:
		want = []plan.Resource{andThen{resource, e.reload}}
	default:
		advice = append(advice, e.name+" goes by it from: "+strings.Join(e.reload, " "))
	}
	if !r.Remove {
		advice = append(advice, "then: "+e.example)
	}
	return want, advice, nil
}

func (e engine) resource(ctx context.Context, h host.Host, r Request) (plan.Resource, error) {
	if r.Remove {
		return e.gone(r), nil
	}
	return e.want(ctx, h, r)
}

// usable says why an engine could not run the wrapper. Its name is how the wrapper tells
// an engine from Concourse, which calls it runc.
func usable(r host.Root, wrapper string) error {
	st, err := r.Stat(wrapper)
	switch {
	case err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0:
		return fmt.Errorf("there is no program %s; --wrapper=PATH names runc-amd-wrapper", wrapper)
	case path.Base(wrapper) == "runc":
		return fmt.Errorf("%s is called runc, as Concourse calls it; --wrapper=PATH names it under another name", wrapper)
	case strings.ContainsAny(wrapper, "\"\\\n"):
		return fmt.Errorf("the path %q can't stand in the configuration of an engine", wrapper)
	}
	return trusted(r, wrapper)
}

// trusted refuses a wrapper that another user than root can replace, if root calls: root's
// engines would run that user's program as root.
func trusted(r host.Root, wrapper string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := r.OnlyRoot(wrapper); err != nil {
		return fmt.Errorf("%w; or install the wrapper where only root can write: sudo install %s /usr/local/bin/, then --wrapper=/usr/local/bin/%s", err, wrapper, path.Base(wrapper))
	}
	return nil
}

// andThen runs a command where something changed.
type andThen struct {
	plan.Resource
	argv []string
}

// Diff implements plan.Resource.
func (a andThen) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	p, err := a.Resource.Diff(ctx, h)
	if err != nil || len(p) == 0 {
		return p, err
	}
	return append(p, plan.Step{Op: strings.Join(a.argv, " "), Why: "as --restart says", Do: func(ctx context.Context) error {
		_, err := h.Run(ctx, host.Command{Argv: a.argv})
		return err
	}}), nil
}
