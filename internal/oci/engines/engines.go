// Package engines configures container engines other than Concourse's for AMD GPUs: Docker,
// Podman, containerd and CRI-O. It adds the wrapper as the runtime "amd" to an engine's
// configuration, and CDI if the engine has it switched off. It writes a separate file if
// the engine reads such files. Otherwise it adds a few keys to the engine's file and leaves
// all other bytes as they are. It removes only its additions, and restarts nothing unless
// it is requested.
package engines

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// Name is the name of the runtime in every engine. AMD's toolkit uses the same name.
const Name = "amd"

// Default selects whether containers that name no runtime get this one.
type Default int

// Values of Default: keep the current setting, set it, or unset it.
const (
	AsIs Default = iota
	Set
	Unset
)

// Request describes the configuration that a user requests.
type Request struct {
	Engine  string
	Wrapper string // absolute path of runc-amd-wrapper; not needed to remove
	// File is the engine's configuration, or our file for an engine that reads a folder.
	// Empty means the usual path, or the recorded one to remove.
	File    string
	Default Default
	Remove  bool
	Restart bool
	// UserConfig is a user's configuration folder, for podman. Empty means root's.
	UserConfig string
}

// engine describes how an engine is configured.
type engine struct {
	name    string
	file    string
	reload  []string // command that reloads the configuration; nil for none
	starts  string   // program that reads it at its next start, without such a command
	want    func(ctx context.Context, h host.Host, r Request) (plan.Resource, error)
	remove  func(r Request) plan.Resource
	example string
}

func all() []engine {
	return []engine{
		{"docker", "/etc/docker/daemon.json", []string{"systemctl", "reload", "docker"}, "", wantDocker, removeDocker,
			"docker run --rm --runtime amd -e AMD_VISIBLE_DEVICES=0 IMAGE"},
		{"podman", "/etc/containers/containers.conf.d/50-amd-gpu.conf", nil, "", wantPodman, removeDropIn,
			"podman run --rm --device amd.com/gpu=0 IMAGE, or --runtime amd -e AMD_VISIBLE_DEVICES=0"},
		{"containerd", machines().file, []string{"systemctl", "restart", "containerd"}, "",
			wantContainerd, removeContainerd,
			"a pod with the RuntimeClass of the handler amd, and AMD_VISIBLE_DEVICES=0"},
		{"crio", "/etc/crio/crio.conf.d/50-amd-gpu.conf", []string{"systemctl", "restart", "crio"}, "",
			wantCRIO, removeDropIn,
			"a pod with the RuntimeClass of the handler amd, and AMD_VISIBLE_DEVICES=0"},
	}
}

// Names returns the supported engines.
func Names() (names []string) {
	for _, e := range all() {
		names = append(names, e.name)
	}
	return names
}

// Want returns the resources of a request, and advice for the user to show after they are
// applied.
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
	e, r = e.locate(h.Root, r)
	if e.name == "docker" && (r.Remove || r.Default == Unset) {
		e.reload = []string{"systemctl", "restart", "docker"} // dockerd keeps a removed key until it restarts
	}
	var resource plan.Resource
	if !r.Remove {
		err = checkWrapper(h.Root, r.Wrapper)
	}
	if err == nil {
		resource, err = e.resource(ctx, h, r)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot configure %s: %w", e.name, err)
	}
	want = []plan.Resource{resource}
	switch {
	case e.starts != "":
		advice = append(advice, e.name+" reads it from the next start of "+e.starts)
	case e.reload == nil:
	case r.Restart:
		awaits := e.name == "docker" && !r.Remove && r.File == e.file
		want = []plan.Resource{andThen{resource, e.reload, awaits}}
	default:
		advice = append(advice, e.name+" reads it from: "+strings.Join(e.reload, " "))
	}
	if !r.Remove {
		advice = append(advice, "then: "+e.example)
	}
	return want, advice, nil
}

// locate returns a request with the file that the engine reads, and the engine with the
// command that makes it read that. A removal without a file is from the recorded one.
func (e engine) locate(r host.Root, request Request) (engine, Request) {
	file := request.File
	switch {
	case file != "":
	case request.UserConfig != "":
		file = path.Join(request.UserConfig, strings.TrimPrefix(e.file, "/etc/"))
	case e.name == "containerd" && request.Remove:
		file = configuredFile(r)
	case e.name == "containerd":
		file = onlyFile(r)
	default:
		file = e.file
	}
	if e.name == "containerd" {
		var o owner
		o, file = ownerOf(r, file)
		switch unit := o.enabled(r); {
		case unit != "":
			e.reload = []string{"systemctl", "restart", unit}
		case file != e.file:
			e.reload, e.starts = nil, o.name
		}
	}
	if recorded := e.name == "docker" || e.name == "containerd"; request.File != "" || !request.Remove || !recorded {
		request.File = file
	}
	return e, request
}

func (e engine) resource(ctx context.Context, h host.Host, r Request) (plan.Resource, error) {
	if r.Remove {
		return e.remove(r), nil
	}
	return e.want(ctx, h, r)
}

// checkWrapper returns why an engine could not run the wrapper. The wrapper's name must not
// be runc, because by that name it recognizes calls of Concourse.
func checkWrapper(r host.Root, wrapper string) error {
	st, err := r.Stat(wrapper)
	switch {
	case err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0:
		return fmt.Errorf("program %s is missing; --wrapper=PATH names runc-amd-wrapper", wrapper)
	case path.Base(wrapper) == "runc":
		return fmt.Errorf("%s is called runc, as Concourse calls it; --wrapper=PATH names it under another "+
			"name", wrapper)
	case strings.ContainsAny(wrapper, "\"\\\n"):
		return fmt.Errorf("the path %q can't be in the configuration of an engine", wrapper)
	}
	return trusted(r, wrapper)
}

// trusted refuses a wrapper that users other than root can replace, if root calls: root's
// engines would run that user's program as root.
func trusted(r host.Root, wrapper string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := r.OnlyRoot(wrapper); err != nil {
		return fmt.Errorf("%w; or install the wrapper in a folder that only root can write: sudo install %s "+
			"/usr/local/bin/, then --wrapper=/usr/local/bin/%s", err, wrapper, path.Base(wrapper))
	}
	return nil
}

// andThen runs a command if something changed.
type andThen struct {
	plan.Resource
	argv   []string
	awaits bool // until Docker lists the runtime: its reload only sends a signal
}

// reloadTime bounds the wait for Docker.
const reloadTime = time.Minute

// awaitDocker waits until Docker lists the runtime.
func awaitDocker(ctx context.Context, h host.Host) error {
	const pause = 100 * time.Millisecond
	for waited := time.Duration(0); waited < reloadTime; waited += pause {
		out, err := h.Run(ctx, host.Command{ReadOnly: true,
			Argv: []string{"docker", "info", "--format", "{{range $name, $_ := .Runtimes}}{{$name}} {{end}}"}})
		if err != nil {
			return err
		}
		if slices.Contains(strings.Fields(string(out)), Name) {
			return nil
		}
		h.Sleep(pause)
	}
	return fmt.Errorf("cannot see that docker has reloaded: docker info lists no runtime %s; "+
		"see: sudo journalctl --unit docker", Name)
}

// Diff implements plan.Resource.
func (a andThen) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	p, err := a.Resource.Diff(ctx, h)
	if err != nil || len(p) == 0 {
		return p, err
	}
	return append(p, plan.Step{Op: strings.Join(a.argv, " "), Why: "requested with --restart",
		Do: func(ctx context.Context) error {
			if _, err := h.Run(ctx, host.Command{Argv: a.argv}); err != nil || !a.awaits {
				return err
			}
			return awaitDocker(ctx, h)
		}}), nil
}

// Unit configures the engines that the operator of a unit lists. The unit recognizes its
// configuration by its wrapper, so an engine that was configured by hand with another
// wrapper stays as it is. An engine's broken file fails no hook.
type Unit struct {
	Engines []string
	Wrapper string
}

// Diff implements plan.Resource.
func (u Unit) Diff(ctx context.Context, h host.Host) (p plan.Plan, err error) {
	for _, e := range all() {
		r := Request{Engine: e.name, Wrapper: u.Wrapper, Remove: !slices.Contains(u.Engines, e.name)}
		if r.Remove && !u.has(h.Root, e) {
			continue
		}
		e, r = e.locate(h.Root, r)
		var steps plan.Plan
		of, err := e.resource(ctx, h, r)
		if err == nil {
			steps, err = of.Diff(ctx, h)
		}
		if err != nil {
			steps = plan.Plan{{Op: "configure " + e.name, Why: "container-engines", Tolerate: true,
				Do: func(context.Context) error { return err }}}
		}
		p = append(p, steps...)
	}
	return p, nil
}

// RemoveAll returns the resources that remove a wrapper from all engines that use it.
func RemoveAll(ctx context.Context, h host.Host, wrapper string) (want []plan.Resource, err error) {
	for _, name := range Configured(h.Root, wrapper) {
		one, _, err := Want(ctx, h, Request{Engine: name, Wrapper: wrapper, Remove: true})
		if err != nil {
			return nil, err
		}
		want = append(want, one...)
	}
	return want, nil
}

// Configured returns the engines that use a wrapper.
func Configured(r host.Root, wrapper string) (names []string) {
	for _, e := range all() {
		if (Unit{Wrapper: wrapper}).has(r, e) {
			names = append(names, e.name)
		}
	}
	return names
}

// has reports whether an engine uses this unit's wrapper.
func (u Unit) has(r host.Root, e engine) bool {
	files := []string{e.file}
	if e.name == "containerd" {
		files = containerdDropIns(Request{})
	}
	for _, file := range files {
		if text, err := readOwn(r, file); err == nil && strings.Contains(text, u.Wrapper) {
			return true
		}
	}
	rec, err := readRecord(r, e.name)
	return err == nil && slices.ContainsFunc(rec.had(),
		func(p part) bool { return strings.Contains(p.Text, u.Wrapper) })
}
