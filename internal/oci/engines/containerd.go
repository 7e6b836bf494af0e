package engines

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// containerdFacts holds what decides where the runtime is configured.
//
// Before version 2 an imported file replaces the whole configuration of a plugin
// (containerd issue 5837) and all runtimes (issue 7982). There the runtime is added to
// config.toml itself, together with runc if it is missing. Version 2 merges files and gets
// a separate file, with a version not above that of config.toml (containerd pull request
// 12891).
type containerdFacts struct {
	major, minor int // 0 if not known
	version      int64
	plugin       []string // the table of the CRI's runtimes
	dropIn       string   // path of our file that config.toml imports; "" for none
	tree         map[string]any
}

const (
	criGRPC    = "io.containerd.grpc.v1.cri"
	criRuntime = "io.containerd.cri.v1.runtime"
)

func readContainerd(data []byte, file string, major, minor int) (f containerdFacts, err error) {
	f = containerdFacts{major: major, minor: minor, tree: map[string]any{}}
	if err := toml.Unmarshal(data, &f.tree); err != nil {
		return f, fmt.Errorf("it is not TOML: %w", err)
	}
	var known bool
	if f.version, known = f.tree["version"].(int64); !known {
		f.version = 1
		if len(f.tree) == 0 { // an empty file
			f.version = 2
			if major >= 2 {
				f.version = 3
			}
		}
	}
	switch f.version {
	case 2:
		f.plugin = []string{"plugins", criGRPC, "containerd"}
	case 3, 4:
		f.plugin = []string{"plugins", criRuntime, "containerd"}
	default:
		return f, fmt.Errorf("its version is %d, and 2, 3 and 4 are known here; containerd config migrate "+
			"prints it in a newer one", f.version)
	}
	list, _ := f.tree["imports"].([]any)
	for _, glob := range list {
		text, _ := glob.(string)
		if !path.IsAbs(text) {
			text = path.Join(path.Dir(file), text)
		}
		for _, own := range dropIns(file) {
			if matches, _ := path.Match(text, own); matches && f.dropIn == "" && (major >= 2 || f.version >= 3) {
				f.dropIn = own
			}
		}
	}
	return f, nil
}

// dropIns returns the paths that our file has beside a file that imports it.
func dropIns(file string) (paths []string) {
	for _, folder := range []string{"conf.d", "config.d", "config-v3.toml.d", "config.toml.d", "containerd.d"} {
		paths = append(paths, path.Join(path.Dir(file), folder, dropInName))
	}
	return paths
}

const dropInName = "50-amd-gpu.toml"

// at returns the value at a path of keys in a tree.
func at(tree map[string]any, keys ...string) any {
	var v any = tree
	for _, k := range keys {
		t, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = t[k]
	}
	return v
}

func table(keys ...string) string {
	quoted := slices.Clone(keys)
	for i, k := range keys {
		if strings.Contains(k, ".") {
			quoted[i] = `"` + k + `"`
		}
	}
	return strings.Join(quoted, ".")
}

// runtimeText returns the table of the runtime for containerd, with runc's cgroup driver.
func (f containerdFacts) runtimeText(wrapper string) string {
	of := func(name string) string { return table(append(slices.Clone(f.plugin), "runtimes", name)...) }
	text := ""
	if f.major < 2 && f.dropIn == "" && at(f.tree, append(slices.Clone(f.plugin), "runtimes", "runc")...) == nil {
		text = fmt.Sprintf("[%s]\n  runtime_type = \"io.containerd.runc.v2\"\n", of("runc"))
	}
	text += fmt.Sprintf("[%s]\n  runtime_type = \"io.containerd.runc.v2\"\n[%s.options]\n  BinaryName = "+
		"\"%s\"\n", of(Name), of(Name), wrapper)
	if on, _ := at(f.tree, append(slices.Clone(f.plugin), "runtimes", "runc", "options",
		"SystemdCgroup")...).(bool); on {
		text += "  SystemdCgroup = true\n"
	}
	return text
}

// needsCDI reports whether CDI must be switched on, as in containerd 1.7. Version 2 has it
// on.
func (f containerdFacts) needsCDI() bool { return f.major == 1 && f.minor >= 7 }

func wantContainerd(ctx context.Context, h host.Host, r Request) (plan.Resource, error) {
	o, _ := ownerOf(h.Root, r.File)
	major, minor := version(ctx, h, o.program)
	data, there, err := readEngineFile(h.Root, r.File)
	if err != nil {
		return nil, err
	}
	if !there && o.mark != "" {
		return nil, fmt.Errorf("%s is missing: %s writes it at its first start, so start that first", r.File, o.name)
	}
	f, err := readContainerd(data, r.File, major, minor)
	if err != nil {
		return nil, err
	}
	rec, err := readRecord(h.Root, "containerd")
	if err != nil {
		return nil, err
	}
	overwritten := o.overwrites(data)
	if overwritten && o.folder != "" {
		f.dropIn = path.Join(path.Dir(r.File), o.folder, dropInName)
	}
	if overwritten && f.dropIn == "" {
		return nil, o.refuse(r.File, f, r.Wrapper)
	}
	if f.dropIn != "" && (overwritten || rec == nil) {
		return dropIn{path: f.dropIn, first: fmt.Sprintf("version = %d\n", f.version),
			runtime: f.runtimeText(r.Wrapper),
			asDefault: fmt.Sprintf("[%s]\n  default_runtime_name = \"%s\"\n", table(f.plugin...),
				Name), byDefault: r.Default}, nil
	}
	return edited{"containerd", r.File, configTOML{}, func(before []byte, had []part) ([]part, error) {
		f, err := readContainerd(before, r.File, major, minor)
		if err != nil {
			return nil, err
		}
		if at(f.tree, append(slices.Clone(f.plugin), "runtimes", Name)...) != nil {
			return nil, fmt.Errorf("it has a runtime %s already, from another program; remove it first", Name)
		}
		text := f.runtimeText(r.Wrapper)
		if len(f.tree) == 0 {
			text = fmt.Sprintf("version = %d\n", f.version) + text
		}
		parts := []part{{Name: "runtime " + Name, Text: block(text)}}
		if f.needsCDI() {
			parts = append(parts, part{Name: table(f.plugin[0], f.plugin[1]) + ": enable_cdi",
				Text: "  enable_cdi = true" + ours})
		}
		if wantsDefault(r.Default, had, f.defaultName()) {
			parts = append(parts, part{Name: f.defaultName(), Text: "  default_runtime_name = \"" + Name + "\"" + ours})
		}
		return parts, nil
	}}, nil
}

func (f containerdFacts) defaultName() string { return table(f.plugin...) + ": default_runtime_name" }

// removeContainerd removes all forms, because the file may have been another one then.
func removeContainerd(r Request) plan.Resource {
	all := several{asBefore{engine: "containerd", file: r.File, editor: configTOML{}}}
	for _, path := range containerdDropIns(r) {
		all = append(all, noDropIn{path: path})
	}
	return all
}

// containerdDropIns returns the paths that our file has beside the given file, and otherwise
// beside the file of each owner.
func containerdDropIns(r Request) (paths []string) {
	if r.File != "" {
		return dropIns(r.File)
	}
	for _, o := range append(owners(), machines()) {
		paths = append(paths, dropIns(o.file)...)
	}
	return paths
}

// configuredFile returns the file to which the runtime was added, or otherwise onlyFile.
func configuredFile(r host.Root) string {
	for _, o := range owners() {
		for _, path := range dropIns(o.file) {
			if text, err := readOwn(r, path); err == nil && text != "" {
				return o.file
			}
		}
	}
	if rec, err := readRecord(r, "containerd"); err == nil && rec != nil {
		return rec.File
	}
	return onlyFile(r)
}

type several []plan.Resource

// Diff implements plan.Resource.
func (s several) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	return plan.Diff(ctx, h, s...)
}
