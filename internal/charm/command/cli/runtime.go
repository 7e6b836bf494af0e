package cli

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/workstation"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/engines"
)

const wrapperProgram = "runc-amd-wrapper"

func (p *caller) runtimeCommand() command {
	r := engines.Request{}
	set, unset := false, false
	exclusive, shared := false, false
	return command{words: "runtime configure", args: strings.Join(engines.Names(), "|"), max: 1, values: engines.Names,
		text: "add the GPUs to another container engine on any machine",
		long: "Adds runc-amd-wrapper to a container engine as the runtime \"amd\", and turns CDI on if the " +
			"engine needs that. It prints what it does, adds only its own keys or its own file, and " +
			"restarts nothing without --restart. Without root, podman is the calling user's.",
		example: "sudo " + p.name() + " cdi generate\nsudo " + p.name() + " runtime configure docker --restart\n" +
			"docker run --runtime amd -e AMD_VISIBLE_DEVICES=all IMAGE",
		flags: func(fs *pflag.FlagSet) {
			fs.BoolVar(&set, "set-as-default", false, "use it for containers that name no runtime")
			fs.BoolVar(&unset, "unset-as-default", false, "stop using it for them")
			fs.BoolVar(&r.Remove, "remove", false, "undo only these changes")
			fs.BoolVar(&r.Restart, "restart", false, "restart or reload the engine if it needs that")
			fs.BoolVar(&exclusive, "exclusive", false, "lease GPUs: each is in one container at a time")
			fs.BoolVar(&shared, "shared", false, "end --exclusive: containers share the GPUs")
			p.planFlags(fs)
			fs.StringVar(
				&r.Wrapper, "wrapper", "",
				"`PATH` of runc-amd-wrapper (default: beside this program, otherwise on PATH)",
			)
			fs.StringVar(
				&r.File, "config-path", "",
				"`PATH` of the engine's file (daemon.json, config.toml), or for podman and crio "+
					"of the file that is made",
			)
			fs.StringVar(&r.Engine, "runtime", "", "the same as `NAME` after configure")
		},
		run: func(words []string) error {
			if r.Engine != "" {
				words = append(words, r.Engine)
			}
			switch {
			case len(words) != 1 || !slices.Contains(engines.Names(), words[0]):
				return &commandline.UsageError{Text: fmt.Sprintf(
					"cannot configure %q: want one of %s", strings.Join(words, " "),
					strings.Join(engines.Names(), ", "))}
			case set && unset, r.Remove && (set || unset):
				return &commandline.UsageError{
					Text: "cannot do both: --set-as-default, --unset-as-default and --remove exclude each other",
				}
			case exclusive && (shared || r.Remove):
				return &commandline.UsageError{Text: "cannot do both: --exclusive excludes --shared and --remove"}
			case set:
				r.Default = engines.Set
			case unset:
				r.Default = engines.Unset
			}
			r.Engine = words[0]
			return p.configure(r, sharing{exclusive: exclusive, shared: shared})
		}}
}

// sharing holds the requested change of leases; without both, it stays as it is.
type sharing struct{ exclusive, shared bool }

func (p *caller) configure(r engines.Request, s sharing) (err error) {
	if r.Wrapper == "" {
		r.Wrapper = p.findWrapper()
	}
	for _, path := range []*string{&r.Wrapper, &r.File} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if r.Engine == "podman" && os.Geteuid() != 0 {
		if r.UserConfig = p.env("XDG_CONFIG_HOME"); r.UserConfig == "" {
			u, err := user.Current()
			if err != nil {
				return fmt.Errorf("cannot find the folder of your configuration: %w", err)
			}
			r.UserConfig = filepath.Join(u.HomeDir, ".config")
		}
	}
	want, advice, err := engines.Want(p.ctx, p.charm.Host, r)
	if err != nil {
		return err
	}
	more, err := p.machineResources(r, s)
	if err != nil {
		return err
	}
	if err := p.applyPlan(append(want, more...)...); err != nil {
		return err
	}
	if s.exclusive && r.Default != engines.Set {
		advice = append(advice, "only containers under the wrapper lease: --set-as-default adds those with --device")
	}
	if !r.Remove && !p.charm.Host.Exists(cdi.Path) {
		advice = append([]string{cdi.Path + " is missing: run " + p.name() + " cdi generate"}, advice...)
	}
	for _, a := range advice {
		p.advise(a)
	}
	return nil
}

// machineResources returns what a machine without a unit needs in addition to an engine's
// configuration: the description, if the package keeps it current, and the leases. They are
// removed with the last engine.
func (p *caller) machineResources(r engines.Request, s sharing) (want []plan.Resource, err error) {
	root := p.charm.Host.Root
	if s.exclusive {
		if !root.Exists(cdi.Path) {
			if err := p.refreshCDI(workstation.Selection{}); err != nil {
				return nil, err
			}
		}
		return workstation.Lease(root)
	}
	if r.UserConfig != "" && !s.shared {
		return nil, nil // a user's Podman has no part in the leases, and may not read their settings
	}
	others := slices.DeleteFunc(engines.Configured(root, r.Wrapper), func(e string) bool { return e == r.Engine })
	if s.shared || r.Remove && len(others) == 0 {
		return workstation.Share(root)
	}
	return nil, nil
}

// findWrapper searches the folder of the unit's engines, because the hooks name that one, the
// charm's folder, and then PATH.
func (p *caller) findWrapper() string {
	dir := p.charm.CharmDir
	for _, path := range append(
		[]string{filepath.Join(role.EnginesDir, wrapperProgram), filepath.Join(dir, wrapperProgram),
			filepath.Join(dir, "bin", wrapperProgram)},
		searchPath(p.env("PATH"))...,
	) {
		if st, err := p.charm.Host.Stat(path); err == nil && st.Mode().IsRegular() {
			return path
		}
	}
	return "/usr/local/bin/" + wrapperProgram
}

func searchPath(path string) (all []string) {
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) {
			all = append(all, filepath.Join(dir, wrapperProgram))
		}
	}
	return all
}
