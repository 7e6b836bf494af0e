package cli

import (
	"flag"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"concourse-ci-machine/internal/gpu/cdi"
	"concourse-ci-machine/internal/oci/engines"
)

const runtimeUsage = `Usage: dispatch runtime configure docker|podman|containerd|crio [flags]

Adds runc-amd-wrapper to a container engine as the runtime "amd", and turns CDI on where
the engine has it and has to be told, on any machine. It prints what it does, adds its
own keys or its own file only, and restarts nothing by itself. Podman's without root is
that of the user who calls.

  --set-as-default    containers that name no runtime get it too
  --unset-as-default  they do no more
  --remove            take back exactly what was added
  --restart           have the engine read it, where it does not by itself
  --dry-run           print what would be done, change nothing
  --wrapper=PATH      runc-amd-wrapper (default: beside this program, else on PATH)
  --config-path=PATH  the engine's file (daemon.json, config.toml), or for podman and
                      crio the one that is made
  --runtime=NAME      the same as NAME after configure
  --help              print this text and exit

Exit status: 0 done, 1 failed, 2 wrong command line.
`

const wrapperProgram = "runc-amd-wrapper"

func (p *caller) runtime(args []string) int {
	if len(args) > 0 && isHelp(args[0]) {
		fmt.Fprint(p.stdout, runtimeUsage)
		return 0
	}
	if len(args) == 0 || args[0] != "configure" {
		return p.usageError("cannot run runtime %q: want runtime configure ENGINE", strings.Join(args, " "))
	}
	fs := flag.NewFlagSet("runtime configure", flag.ContinueOnError)
	r := engines.Request{}
	fs.StringVar(&r.Engine, "runtime", "", "")
	fs.StringVar(&r.Wrapper, "wrapper", "", "")
	fs.StringVar(&r.File, "config-path", "", "")
	fs.BoolVar(&r.Remove, "remove", false, "")
	fs.BoolVar(&r.Restart, "restart", false, "")
	set, unset, dry := fs.Bool("set-as-default", false, ""), fs.Bool(
		"unset-as-default", false, "",
	), fs.Bool("dry-run", false, "")
	words, code, ended := p.flags(fs, runtimeUsage, "configure a runtime", args[1:])
	if ended {
		return code
	}
	if r.Engine != "" {
		words = append(words, r.Engine)
	}
	known := strings.Join(engines.Names(), ", ")
	switch {
	case len(words) != 1:
		return p.usageError("cannot configure %q: want one of %s", strings.Join(words, " "), known)
	case !strings.Contains(", "+known+",", " "+words[0]+","):
		return p.usageError("cannot configure %q: want one of %s", words[0], known)
	case *set && *unset, r.Remove && (*set || *unset):
		return p.usageError("cannot do both: --set-as-default, --unset-as-default and --remove exclude each other")
	case *set:
		r.Default = engines.Set
	case *unset:
		r.Default = engines.Unset
	}
	r.Engine = words[0]
	return p.exitStatus(p.configure(r, *dry))
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
	if err := p.applyPlan(dry, want...); err != nil {
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

// findWrapper searches the charm's folder, and then PATH.
func (p *caller) findWrapper() string {
	dir := p.charm.CharmDir
	for _, path := range append(
		[]string{filepath.Join(dir, wrapperProgram), filepath.Join(dir, "bin", wrapperProgram)},
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
