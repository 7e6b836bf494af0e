package runners

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

const (
	shebang = "#!/bin/bash\n"
	tag     = "# gpukit runners install " // marks the lines for people
)

// githubEnv adds the variables that name the job hooks. The runner sets each NAME=VALUE line
// of the file as a variable of its process, and skips lines without "=".
func githubEnv(text string, _ host.Root) (after string, put []part, err error) {
	lines := tag + "github\n"
	for _, hook := range []string{"started", "completed"} {
		name, file := "ACTIONS_RUNNER_HOOK_JOB_"+strings.ToUpper(hook), path.Join(Dir, "github", "job-"+hook+".sh")
		if assigns(text, name) {
			return "", nil, fmt.Errorf(".env sets %s to another script; add this line to the script: bash %s", name,
				file)
		}
		lines += name + "=" + file + "\n"
	}
	after, put = addLines(text, lines)
	return after, put, nil
}

// buildkiteHook adds a line to a hook, which the agent runs with bash unless its first line
// names another program.
func buildkiteHook(name string) func(string, host.Root) (string, []part, error) {
	return func(text string, _ host.Root) (after string, put []part, err error) {
		line := ". " + path.Join(Dir, "buildkite", name) + " || return 1 " + tag + "buildkite\n"
		first, _, _ := strings.Cut(text, "\n")
		if strings.HasPrefix(first, "#!") && !strings.HasSuffix(strings.Fields(first)[0], "sh") &&
			!strings.HasSuffix(first, "sh") {
			return "", nil, fmt.Errorf("hooks/%s is not a shell script: %s", name, first)
		}
		after, put = addLines(text, line)
		return after, put, nil
	}
}

// woodpeckerEnv adds the agent's labels.
func woodpeckerEnv(text string, r host.Root) (after string, put []part, err error) {
	labels, err := Labels(r)
	if err != nil {
		return "", nil, err
	}
	const name = "WOODPECKER_AGENT_LABELS"
	value := strings.Join(labels, "=true,") + "=true"
	if assigns(text, name) {
		return "", nil, fmt.Errorf("woodpecker-agent.env sets %s; add these labels to it: %s", name, value)
	}
	after, put = addLines(text, tag+"woodpecker\n"+name+"="+value+"\n")
	return after, put, nil
}

var (
	shellExecutor = lazyregexp.New(`^(\s*)executor\s*=\s*["']shell["']`)
	dockerTable   = lazyregexp.New(`^(\s*)\[\s*runners\.docker\s*\]`)
)

// gitlabConfig adds a line for each runner with the executor shell or docker. Lines that only
// look like these executors are inside a string: the values of the result are compared.
func gitlabConfig(text string, _ host.Root) (after string, put []part, err error) {
	want, n, err := gitlabValues(text)
	if err != nil {
		return "", nil, err
	}
	for line := range strings.Lines(text) {
		after += line
		add := ""
		if m := shellExecutor().FindStringSubmatch(line); m != nil {
			add = m[1] + fmt.Sprintf("pre_build_script = %q", gitlabLease)
		} else if m := dockerTable().FindStringSubmatch(line); m != nil {
			add = m[1] + `  runtime = "amd"`
		}
		if add != "" {
			var one []part
			after, one = addLines(after, add+" "+tag+"gitlab\n")
			put = append(put, one...)
		}
	}
	var is map[string]any
	if err := toml.Unmarshal([]byte(after), &is); err != nil || !reflect.DeepEqual(is, want) || len(put) != n {
		return "", nil, errors.New("the format of config.toml is unknown; add by hand what " + Dir +
			"/gitlab/config.toml shows")
	}
	return after, put, nil
}

const gitlabLease = ". " + Dir + "/gitlab/lease.sh"

// gitlabValues returns the values of config.toml with those that are added, and their number.
func gitlabValues(text string) (want map[string]any, n int, err error) {
	if err := toml.Unmarshal([]byte(text), &want); err != nil {
		return nil, 0, fmt.Errorf("config.toml is not TOML: %w", err)
	}
	list, _ := want["runners"].([]any)
	for _, one := range list {
		r, _ := one.(map[string]any)
		docker, _ := r["docker"].(map[string]any)
		switch {
		case r["executor"] == "shell" && r["pre_build_script"] != nil:
			return nil, 0, fmt.Errorf("runner %q has a pre_build_script; add this line to it: %s", r["name"],
				gitlabLease)
		case docker != nil && docker["runtime"] != nil:
			return nil, 0, fmt.Errorf("runner %q has the runtime %q; with runtime = \"amd\" its containers get GPUs",
				r["name"], docker["runtime"])
		}
		if r["executor"] == "shell" {
			r["pre_build_script"], n = gitlabLease, n+1
		}
		if docker != nil {
			docker["runtime"], n = "amd", n+1
		}
	}
	if n == 0 {
		return nil, 0, errors.New("config.toml has no runner with the executor shell or docker; for custom see " +
			Dir + "/gitlab/config.toml")
	}
	return want, n, nil
}

var (
	containerKey = lazyregexp.New(`^container:\s*(#.*)?$`)
	optionsKey   = lazyregexp.New(`^(\s+)options:\s*(""|'')?\s*(#.*)?$`)
)

// giteaConfig sets the option of docker run for the containers of jobs.
func giteaConfig(text string, _ host.Root) (after string, put []part, err error) {
	const value = "--runtime=amd"
	var want map[string]any
	if err := yaml.Unmarshal([]byte(text), &want); err != nil {
		return "", nil, fmt.Errorf("config.yaml is not YAML: %w", err)
	}
	if want == nil {
		want = map[string]any{} // only comments
	}
	container, _ := want["container"].(map[string]any)
	if set, _ := container["options"].(string); set != "" {
		return "", nil, fmt.Errorf("config.yaml has options %q in container; add %s to them", set, value)
	}
	if container == nil {
		container = map[string]any{}
		want["container"] = container
	}
	container["options"] = value
	for _, e := range giteaEdits(text, "options: "+value+" "+tag+"gitea\n") {
		is := map[string]any{}
		if yaml.Unmarshal([]byte(e.after), &is) == nil && reflect.DeepEqual(is, want) {
			return e.after, e.put, nil
		}
	}
	return "", nil, fmt.Errorf("the format of config.yaml is unknown; add to container by hand: options: %s", value)
}

// edit holds a possible edit of a file.
type edit struct {
	after string
	put   []part
}

// giteaEdits returns the possible edits that add a line to the key container: in place of
// empty options, below the key, or at the end with a new key.
func giteaEdits(text, line string) (edits []edit) {
	lines := strings.SplitAfter(text, "\n")
	for i, l := range lines {
		above, below := strings.Join(lines[:i], ""), strings.Join(lines[i+1:], "")
		if m := optionsKey().FindStringSubmatch(strings.TrimRight(l, "\r\n")); m != nil {
			edits = append(edits, edit{above + m[1] + line + below, []part{{Text: m[1] + line, Before: l}}})
		}
	}
	for i, l := range lines {
		if !containerKey().MatchString(strings.TrimRight(l, "\r\n")) {
			continue
		}
		below, indent := strings.Join(lines[i+1:], ""), "  "
		if next := strings.TrimLeft(below, " "); below != next {
			indent = below[:len(below)-len(next)]
		}
		after, put := addLines(strings.Join(lines[:i+1], ""), indent+line)
		edits = append(edits, edit{after + below, put})
	}
	after, put := addLines(text, "container: "+tag+"gitea\n  "+line)
	return append(edits, edit{after, put})
}
