package runners

import (
	"bytes"
	"context"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const home = "/home/ci/runner"

// machine returns a host with a GPU, the package's hooks and these files of a runner.
func machine(t *testing.T, files map[string]string) host.Root {
	t.Helper()
	root := hosttest.Host(t, "amd")
	for _, k := range kinds() {
		for _, hook := range k.hooks {
			hosttest.Put(t, root, path.Join(Dir, hook), "")
		}
	}
	for name, text := range files {
		hosttest.Put(t, root, path.Join(home, name), text)
	}
	return root
}

// change plans a change, makes it, and returns the plan as people see it.
func change(t *testing.T, r host.Root, q Request) (string, error) {
	t.Helper()
	want, _, err := Want(r, q)
	if err != nil {
		return "", err
	}
	p, err := plan.Diff(context.Background(), host.Host{Root: r}, want)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	require.NoError(t, p.PrintWithContent(&b))
	_, err = p.Apply(context.Background(), nil)
	return b.String(), err
}

// tree returns the runner's files with modes and content.
func tree(t *testing.T, r host.Root) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.Walk(r.Path(home), func(p string, st os.FileInfo, err error) error {
		if err != nil || !st.Mode().IsRegular() {
			return err
		}
		data, err := os.ReadFile(p)
		all[r.Rel(p)] = st.Mode().String() + "\n" + string(data)
		return err
	}))
	return all
}

const gitlabFile = `concurrent = 4
[[runners]]
  name = "one"
  executor = "shell"
  token = "x"
[[runners]]
  name = "two"
  executor = "docker"
  [runners.docker]
    image = "rocm"
[[runners]]
  name = "three"
  executor = "shell"`

var runnersOf = []struct {
	name, kind string
	files      map[string]string
	file, want string
}{
	{"github without .env", "github", map[string]string{"config.sh": ""}, ".env", `# gpukit runners install github
ACTIONS_RUNNER_HOOK_JOB_STARTED=/usr/share/gpukit/runners/github/job-started.sh
ACTIONS_RUNNER_HOOK_JOB_COMPLETED=/usr/share/gpukit/runners/github/job-completed.sh
`},
	{"github with an .env", "github", map[string]string{"config.sh": "", ".env": "LANG=C\n"}, ".env", `LANG=C
# gpukit runners install github
ACTIONS_RUNNER_HOOK_JOB_STARTED=/usr/share/gpukit/runners/github/job-started.sh
ACTIONS_RUNNER_HOOK_JOB_COMPLETED=/usr/share/gpukit/runners/github/job-completed.sh
`},
	{"github with an empty .env", "github", map[string]string{"config.sh": "", ".env": ""}, ".env",
		`# gpukit runners install github
ACTIONS_RUNNER_HOOK_JOB_STARTED=/usr/share/gpukit/runners/github/job-started.sh
ACTIONS_RUNNER_HOOK_JOB_COMPLETED=/usr/share/gpukit/runners/github/job-completed.sh
`},
	{"buildkite", "buildkite",
		map[string]string{"buildkite-agent.cfg": "", "hooks/pre-exit": "#!/usr/bin/env bash\necho bye"},
		"hooks/pre-exit",
		"#!/usr/bin/env bash\necho bye\n" +
			". /usr/share/gpukit/runners/buildkite/pre-exit || return 1 # gpukit runners install buildkite\n"},
	{"buildkite without hooks", "buildkite",
		map[string]string{"buildkite-agent.cfg": "", "hooks/command.sample": ""}, "hooks/environment",
		"#!/bin/bash\n. /usr/share/gpukit/runners/buildkite/environment || return 1 # gpukit runners install buildkite\n"},
	{"woodpecker", "woodpecker", map[string]string{"woodpecker-agent.env": "WOODPECKER_SERVER=ci\n"},
		"woodpecker-agent.env",
		"WOODPECKER_SERVER=ci\n" +
			"# gpukit runners install woodpecker\nWOODPECKER_AGENT_LABELS=rocm=true,gfx1100=true,gpu-1=true\n"},
	{"gitea with empty options", "gitea",
		map[string]string{"config.yaml": "runner:\n  capacity: 2\ncontainer:\n  network: \"\"\n  # of docker run\n" +
			"  options:\n  privileged: false\n"},
		"config.yaml", "runner:\n  capacity: 2\ncontainer:\n  network: \"\"\n  # of docker run\n" +
			"  options: --runtime=amd # gpukit runners install gitea\n  privileged: false\n"},
	{"gitea without options", "gitea", map[string]string{"config.yaml": "container:\n    network: x"}, "config.yaml",
		"container:\n    options: --runtime=amd # gpukit runners install gitea\n    network: x"},
	{"gitea without containers", "gitea", map[string]string{"config.yaml": "log:\n  level: info"}, "config.yaml",
		"log:\n  level: info\n" +
			"container: # gpukit runners install gitea\n  options: --runtime=amd # gpukit runners install gitea\n"},
	{"gitlab", "gitlab", map[string]string{"config.toml": gitlabFile}, "config.toml", `concurrent = 4
[[runners]]
  name = "one"
  executor = "shell"
  pre_build_script = ". /usr/share/gpukit/runners/gitlab/lease.sh" # gpukit runners install gitlab
  token = "x"
[[runners]]
  name = "two"
  executor = "docker"
  [runners.docker]
    runtime = "amd" # gpukit runners install gitlab
    image = "rocm"
[[runners]]
  name = "three"
  executor = "shell"
  pre_build_script = ". /usr/share/gpukit/runners/gitlab/lease.sh" # gpukit runners install gitlab
`},
}

func TestRemoveLeavesEveryByteAsBeforeInstall(t *testing.T) {
	for _, c := range runnersOf {
		t.Run(c.name, func(t *testing.T) {
			root := machine(t, c.files)
			before := tree(t, root)
			q := Request{Kind: c.kind, Path: home}
			_, err := change(t, root, q)
			require.NoError(t, err)
			text, err := root.ReadFile(path.Join(home, c.file))
			require.NoError(t, err)
			require.Equal(t, c.want, string(text))

			again, err := change(t, root, q)
			require.NoError(t, err)
			require.Equal(t, "nothing to do\n", again)

			q.Remove = true
			_, err = change(t, root, q)
			require.NoError(t, err)
			require.Equal(t, before, tree(t, root))
			again, err = change(t, root, q)
			require.NoError(t, err)
			require.Equal(t, "nothing to do\n", again)
		})
	}
}

func TestLinesOfTheOperatorStay(t *testing.T) {
	for before, want := range map[string]string{"": "GPUKIT_GPUS=2\n", "A=1": "A=1\nGPUKIT_GPUS=2\n",
		"A=1\n": "A=1\nGPUKIT_GPUS=2\n"} {
		root := machine(t, map[string]string{"config.sh": "", ".env": before})
		_, err := change(t, root, Request{Kind: "github", Path: home})
		require.NoError(t, err)
		text, err := root.ReadFile(home + "/.env")
		require.NoError(t, err)
		hosttest.Put(t, root, home+"/.env", string(text)+"GPUKIT_GPUS=2\n")
		_, err = change(t, root, Request{Kind: "github", Path: home, Remove: true})
		require.NoError(t, err)
		text, err = root.ReadFile(home + "/.env")
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

func TestChangedLinesAreKept(t *testing.T) {
	root := machine(t, map[string]string{"config.sh": ""})
	_, err := change(t, root, Request{Kind: "github", Path: home})
	require.NoError(t, err)
	hosttest.Put(t, root, home+"/.env", "ACTIONS_RUNNER_HOOK_JOB_STARTED=/opt/other.sh\n")
	_, err = change(t, root, Request{Kind: "github", Path: home, Remove: true})
	require.NoError(t, err)
	require.Equal(t, map[string]string{home + "/config.sh": "-rw-r--r--\n",
		home + "/.env": "-rw-------\nACTIONS_RUNNER_HOOK_JOB_STARTED=/opt/other.sh\n"}, tree(t, root))
}

func TestInstallRefuses(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		files      map[string]string
		want       string
	}{
		{"another folder", "github", map[string]string{"x": ""},
			"it has no file config.sh; --path names the folder of the runner that has it"},
		{"another hook", "github", map[string]string{"config.sh": "",
			".env": "ACTIONS_RUNNER_HOOK_JOB_STARTED=/x.sh\n"},
			".env sets ACTIONS_RUNNER_HOOK_JOB_STARTED to another script; add this line to the script: " +
				"bash /usr/share/gpukit/runners/github/job-started.sh"},
		{"a hook in Python", "buildkite", map[string]string{"buildkite-agent.cfg": "",
			"hooks/environment": "#!/usr/bin/env python3\n"},
			"hooks/environment is not a shell script: #!/usr/bin/env python3"},
		{"no folder of hooks", "buildkite", map[string]string{"buildkite-agent.cfg": ""},
			"cannot open /home/ci/runner/hooks: no such file or directory"},
		{"other labels", "woodpecker", map[string]string{"woodpecker-agent.env": "WOODPECKER_AGENT_LABELS=a=b"},
			"woodpecker-agent.env sets WOODPECKER_AGENT_LABELS; add these labels to it: rocm=true,gfx1100=true,gpu-1=true"},
		{"other options", "gitea", map[string]string{"config.yaml": "container: {options: --init}"},
			`config.yaml has options "--init" in container; add --runtime=amd to them`},
		{"an unknown form", "gitea", map[string]string{"config.yaml": "container: {network: x}"},
			"the format of config.yaml is unknown; add to container by hand: options: --runtime=amd"},
		{"another runtime", "gitlab",
			map[string]string{"config.toml": "[[runners]]\nname='a'\n[runners.docker]\nruntime='nvidia'"},
			`runner "a" has the runtime "nvidia"; with runtime = "amd" its containers get GPUs`},
		{"another script", "gitlab",
			map[string]string{"config.toml": "[[runners]]\nname='a'\nexecutor='shell'\npre_build_script='x'"},
			`runner "a" has a pre_build_script; add this line to it: . /usr/share/gpukit/runners/gitlab/lease.sh`},
		{"no executor", "gitlab", map[string]string{"config.toml": "[[runners]]\nexecutor='custom'\n"},
			"config.toml has no runner with the executor shell or docker; for custom see " +
				"/usr/share/gpukit/runners/gitlab/config.toml"},
		{"a look-alike in a string", "gitlab",
			map[string]string{"config.toml": gitlabFile + "\nshell = \"\"\"\nexecutor = 'shell'\n\"\"\""},
			"the format of config.toml is unknown; add by hand what /usr/share/gpukit/runners/gitlab/config.toml shows"},
		{"another form of TOML", "gitlab", map[string]string{"config.toml": "runners = [{executor='shell'}]\n"},
			"the format of config.toml is unknown; add by hand what /usr/share/gpukit/runners/gitlab/config.toml shows"},
		{"another kind", "gitlab", map[string]string{"config.toml": "", ".gpukit-runner.json": `{"kind": "gitea"}`},
			"it is configured as gitea; first run: gpukit runners remove gitea --path=/home/ci/runner"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := machine(t, c.files)
			before := tree(t, root)
			_, err := change(t, root, Request{Kind: c.kind, Path: home})
			require.EqualError(t, err, "cannot install "+c.kind+" in /home/ci/runner: "+c.want)
			require.Equal(t, before, tree(t, root))
		})
	}
	_, err := change(t, hosttest.Host(t, "amd"), Request{Kind: "github", Path: home})
	require.EqualError(t, err,
		"cannot install github: /usr/share/gpukit/runners/github/job-started.sh is missing; install the package gpukit")
	_, err = change(t, hosttest.Host(t, "amd"), Request{Kind: "drone", Path: home})
	require.EqualError(t, err,
		`cannot configure a runner of the kind "drone": want one of github, gitea, gitlab, woodpecker, buildkite`)
}

// The folder belongs to the user who runs the jobs, and root calls.
func TestNothingIsFollowedOutOfTheRunnersFolder(t *testing.T) {
	const secret = "/etc/secret"
	for name, put := range map[string]func(t *testing.T, r host.Root){
		"a link as .env": func(t *testing.T, r host.Root) { hosttest.Link(t, r, home+"/.env", r.Path(secret)) },
		"a link as the record": func(t *testing.T, r host.Root) {
			hosttest.Link(t, r, home+"/"+recordName,
				r.Path(secret))
		},
		"a second name of .env": func(t *testing.T, r host.Root) {
			require.NoError(t, os.Link(r.Path(secret), r.Path(home+"/.env")))
		},
		"a pipe as .env": func(t *testing.T, r host.Root) {
			require.NoError(t, unix.Mkfifo(r.Path(home+"/.env"),
				0o600))
		},
		"a folder as .env": func(t *testing.T, r host.Root) {
			require.NoError(t, os.Mkdir(r.Path(home+"/.env"),
				0o700))
		},
		"a link as the folder": func(t *testing.T, r host.Root) {
			require.NoError(t, os.Rename(r.Path(home), r.Path("/home/ci/real")))
			hosttest.Link(t, r, home, r.Path("/home/ci/real"))
		},
		"a link above the folder": func(t *testing.T, r host.Root) {
			require.NoError(t, os.Rename(r.Path("/home/ci"), r.Path("/home/real")))
			hosttest.Link(t, r, "/home/ci", r.Path("/home/real"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := machine(t, map[string]string{"config.sh": ""})
			hosttest.Put(t, root, secret, "GPUKIT=secret\n")
			put(t, root)
			_, err := change(t, root, Request{Kind: "github", Path: home})
			require.Regexp(t, "is a link, and links are not followed|is not a regular file with one name", err)
			change(t, root, Request{Kind: "github", Path: home, Remove: true})
			text, err := root.ReadText(secret)
			require.NoError(t, err)
			require.Equal(t, "GPUKIT=secret", text)
		})
	}
}

// New files belong to the owner of their folder, and others keep theirs.
func TestFilesBelongToTheOwnerOfTheFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	root := machine(t, map[string]string{"buildkite-agent.cfg": "", "hooks/pre-exit": "true\n"})
	require.NoError(t, os.Lchown(root.Path(home), 1234, 1234))
	require.NoError(t, os.Lchown(root.Path(home+"/hooks"), 1235, 1235))
	require.NoError(t, os.Chmod(root.Path(home+"/hooks/pre-exit"), 0o700))
	_, err := change(t, root, Request{Kind: "buildkite", Path: home})
	require.NoError(t, err)
	for name, want := range map[string]struct {
		uid  uint32
		mode os.FileMode
	}{
		recordName: {1234, 0o600}, "hooks/environment": {1235, 0o755}, "hooks/pre-exit": {0, 0o700},
	} {
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(root.Path(path.Join(home, name)), &st))
		require.Equal(t, want.uid, st.Uid, name)
		require.Equal(t, want.mode, os.FileMode(st.Mode&0o777), name)
	}
}

func TestPlanShowsTheLines(t *testing.T) {
	root := machine(t, map[string]string{"config.yaml": "container:\n  options: \"\"\n"})
	text, err := change(t, root, Request{Kind: "gitea", Path: home})
	require.NoError(t, err)
	require.Equal(t, `1/2 write /home/ci/runner/.gpukit-runner.json (for gpukit runners remove)
2/2 write /home/ci/runner/config.yaml (the rest stays)
    -  options: ""
    +  options: --runtime=amd # gpukit runners install gitea
`, text)
}

func TestLabels(t *testing.T) {
	labels, err := Labels(hosttest.Host(t, "amd"))
	require.NoError(t, err)
	require.Equal(t, []string{"rocm", "gfx1100", "gpu-1"}, labels)
	_, err = Labels(hosttest.Host(t, "nvidia-only"))
	require.EqualError(t, err, "cannot label a runner: this machine has no usable AMD GPU; see gpukit gpu list")
}

func FuzzEdits(f *testing.F) {
	for _, c := range runnersOf {
		for _, text := range c.files {
			f.Add(text)
		}
	}
	f.Add("~")
	root := hosttest.Host(f, "amd")
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range kinds() {
			for _, file := range k.files {
				after, put, err := file.edit(text, root)
				if err != nil {
					continue
				}
				before, left := changes{Parts: put}.undo(after)
				require.Equal(t, text, before, k.name)
				require.Zero(t, left, k.name)
			}
		}
	})
}
