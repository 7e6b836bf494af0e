package cli

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"concourse-ci-machine/internal/gpu/cdi"
	"concourse-ci-machine/internal/oci/engines"
)

const wrapperProgram = "runc-amd-wrapper"

func (p *caller) runtimeCommand() command {
	r := engines.Request{}
	set, unset, dry := false, false, false
	return command{words: "runtime configure", args: strings.Join(engines.Names(), "|"), max: 1, values: engines.Names,
		text: "add the GPUs to another container engine on any machine",
		long: "Adds runc-amd-wrapper to a container engine as the runtime \"amd\", and turns CDI on if the " +
			"engine needs that. It prints what it does, adds only its own keys or its own file, and " +
			"restarts nothing unless told to. Without root, podman is that of the calling user.",
		example: "sudo dispatch cdi generate\nsudo dispatch runtime configure docker --restart\ndocker run --runtime amd IMAGE",
		flags: func(fs *pflag.FlagSet) {
			fs.BoolVar(&set, "set-as-default", false, "use it for containers that name no runtime")
			fs.BoolVar(&unset, "unset-as-default", false, "stop using it for them")
			fs.BoolVar(&r.Remove, "remove", false, "remove exactly what was added")
			fs.BoolVar(&r.Restart, "restart", false, "restart or reload the engine if it needs that")
			fs.BoolVar(&dry, "dry-run", false, "print what would be done, change nothing")
			fs.StringVar(&r.Wrapper, "wrapper", "", "`PATH` of runc-amd-wrapper (default: beside this program, else on PATH)")
			fs.StringVar(&r.File, "config-path", "", "`PATH` of the engine's file (daemon.json, config.toml), or for podman and crio of the file that is made")
			fs.StringVar(&r.Engine, "runtime", "", "the same as `NAME` after configure")
		},
		run: func(words []string) error {
			if r.Engine != "" {
				words = append(words, r.Engine)
			}
			switch {
			case len(words) != 1 || !slices.Contains(engines.Names(), words[0]):
				return &wrongLine{text: fmt.Sprintf("cannot configure %q: want one of %s", strings.Join(words, " "), strings.Join(engines.Names(), ", "))}
			case set && unset, r.Remove && (set || unset):
				return &wrongLine{text: "cannot do both: --set-as-default, --unset-as-default and --remove exclude each other"}
			case set:
				r.Default = engines.Set
			case unset:
				r.Default = engines.Unset
			}
			r.Engine = words[0]
			return p.configure(r, dry)
		}}
}

func (p *caller) configure(r engines.Request, dry bool) (err error) {
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
	if err := p.carryOut(dry, want...); err != nil {
		return err
	}
	if !r.Remove && !p.charm.Host.Exists(cdi.Path) {
		advice = append([]string{"there is no " + cdi.Path + " yet: dispatch cdi generate"}, advice...)
	}
	for _, a := range advice {
		fmt.Fprintln(p.stdout, a)
	}
	return nil
}

// findWrapper looks where the charm has it, and where people put programs.
func (p *caller) findWrapper() string {
	dir := p.charm.CharmDir
	for _, path := range append([]string{filepath.Join(dir, wrapperProgram), filepath.Join(dir, "bin", wrapperProgram)}, onPath(p.env("PATH"))...) {
		if st, err := p.charm.Host.Stat(path); err == nil && st.Mode().IsRegular() {
			return path
		}
	}
	return "/usr/local/bin/" + wrapperProgram
}

func onPath(path string) (all []string) {
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) {
			all = append(all, filepath.Join(dir, wrapperProgram))
		}
	}
	return all
}
