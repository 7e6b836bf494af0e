package engines

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const wrapper = "/usr/local/bin/runc-amd-wrapper"

// machine has the wrapper, and an engine that reports its version; "" is none.
func machine(t *testing.T, engine, version string) host.Host {
	h := host.Host{Root: hosttest.Root(t), Runner: hosttest.NewRunner(t), Clock: hosttest.Clock{T: hosttest.Now}}
	hosttest.Put(t, h.Root, wrapper, "#!/bin/sh\n")
	require.NoError(t, os.Chmod(h.Path(wrapper), 0o755))
	if r := h.Runner.(*hosttest.Runner); version != "" {
		r.Answer(engine+" --version", version)
	} else {
		r.Fail(engine+" --version", 127, "not found")
	}
	return h
}

const (
	docker20     = "Docker version 20.10.24+dfsg1, build 5d6db84\n"
	docker25     = "Docker version 25.0.3, build f417435\n"
	docker28     = "Docker version 28.2.2, build 45873be\n"
	containerd16 = "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3\n"
	containerd17 = "containerd github.com/containerd/containerd v1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da\n"
	containerd21 = "containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7193e4e490e9fbdc236c0e811ccaba3376\n"
)

func planOf(t *testing.T, h host.Host, r Request) plan.Plan {
	t.Helper()
	want, _, err := Want(context.Background(), h, r)
	require.NoError(t, err)
	p, err := plan.Diff(context.Background(), h, want...)
	require.NoError(t, err)
	return p
}

func do(t *testing.T, h host.Host, r Request) (text string) {
	t.Helper()
	var b bytes.Buffer
	p := planOf(t, h, r)
	require.NoError(t, p.Print(&b))
	_, err := p.Apply(context.Background(), nil)
	require.NoError(t, err)
	return b.String()
}

// files are all that is below /etc and the charm's folder, with mode and content.
func files(t *testing.T, h host.Host) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range []string{"/etc", "/var"} {
		require.NoError(t, filepath.WalkDir(h.Path(dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil
			}
			st, err := d.Info()
			require.NoError(t, err)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			if strings.HasSuffix(path, "/engines/"+filepath.Base(path)) {
				data = []byte("(the record)\n")
			}
			b.WriteString("== " + h.Rel(path) + " " + st.Mode().String() + "\n" + string(data))
			return nil
		}))
	}
	return b.String()
}

type life struct {
	engine, version, file, before string
}

var lives = map[string]life{
	"docker-20-no-file":        {"docker", docker20, "/etc/docker/daemon.json", ""},
	"docker-20-empty-object":   {"docker", docker20, "/etc/docker/daemon.json", "{}\n"},
	"docker-20-one-line":       {"docker", docker20, "/etc/docker/daemon.json", `{"log-driver": "json-file", "x": 18446744073709551615}`},
	"docker-25":                {"docker", docker25, "/etc/docker/daemon.json", "{\n  \"features\": {\n    \"buildkit\": true\n  },\n  \"data-root\": \"/srv/docker\"\n}\n"},
	"docker-25-CDI-is-on":      {"docker", docker25, "/etc/docker/daemon.json", "{\n\t\"features\": {\"cdi\": true},\n\t\"default-runtime\": \"nvidia\",\n\t\"runtimes\": {\n\t\t\"nvidia\": {\"path\": \"nvidia-container-runtime\"}\n\t}\n}\n"},
	"docker-28-AMDs-runtime":   {"docker", docker28, "/etc/docker/daemon.json", "{\"runtimes\":{\"amd\":{\"path\":\"amd-container-runtime\",\"runtimeArgs\":[]}}}\n"},
	"podman":                   {"podman", "", "/etc/containers/containers.conf", "[engine]\ncgroup_manager = \"cgroupfs\" # ours\n"},
	"crio":                     {"crio", "", "/etc/crio/crio.conf", "[crio.runtime]\n"},
	"containerd-1.6-no-file":   {"containerd", containerd16, "/etc/containerd/config.toml", ""},
	"containerd-1.6-Debian":    {"containerd", containerd16, "/etc/containerd/config.toml", "version = 2\n\n[plugins]\n  [plugins.\"io.containerd.grpc.v1.cri\"]\n    [plugins.\"io.containerd.grpc.v1.cri\".cni]\n      bin_dir = \"/usr/lib/cni\"\n  [plugins.\"io.containerd.internal.v1.opt\"]\n    path = \"/var/lib/containerd\"\n"},
	"containerd-1.7-kubeadm":   {"containerd", containerd17, "/etc/containerd/config.toml", "version = 2\n# a comment\n[plugins.'io.containerd.grpc.v1.cri']\n  sandbox_image = \"registry.k8s.io/pause:3.9\"\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n  default_runtime_name = \"runc\" # theirs\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n  runtime_type = \"io.containerd.runc.v2\"\n  [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n    SystemdCgroup = true"},
	"containerd-1.7-imports":   {"containerd", containerd17, "/etc/containerd/config.toml", "version = 2\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n"},
	"containerd-2.1-imports":   {"containerd", containerd21, "/etc/containerd/config.toml", "version = 3\nimports = ['conf.d/*.toml']\n"},
	"containerd-2.1-no-import": {"containerd", containerd21, "/etc/containerd/config.toml", "version = 3\n"},
	"containerd-not-installed": {"containerd", "", "/etc/containerd/config.toml", "version = 2\n"},
}

// Configure, make it the default, do both again, take the default back and then all.
func TestLifeOfARuntimeInEachEngine(t *testing.T) {
	for name, l := range lives {
		t.Run(name, func(t *testing.T) {
			h := machine(t, map[string]string{"docker": "dockerd"}[l.engine]+map[bool]string{true: l.engine}[l.engine != "docker"], l.version)
			if l.before != "" {
				hosttest.Put(t, h.Root, l.file, l.before)
				require.NoError(t, os.Chmod(h.Path(l.file), 0o640))
			}
			hosttest.Put(t, h.Root, "/etc/other", "not ours\n")
			before := files(t, h)
			var story strings.Builder
			for _, r := range []Request{{}, {}, {Default: Set}, {Default: Set}, {}, {Default: Unset}} {
				r.Engine, r.Wrapper = l.engine, wrapper
				story.WriteString("$ configure" + map[Default]string{Set: " --set-as-default", Unset: " --unset-as-default"}[r.Default] + "\n" + do(t, h, r))
			}
			do(t, h, Request{Engine: l.engine, Wrapper: wrapper, Default: Set})
			story.WriteString("$ configure --set-as-default\n" + files(t, h))
			story.WriteString("$ configure --remove\n" + do(t, h, Request{Engine: l.engine, Remove: true}))
			require.Equal(t, before, files(t, h), "byte for byte as before")
			require.Equal(t, "nothing to do\n", do(t, h, Request{Engine: l.engine, Remove: true}))
			require.NoDirExists(t, h.Path("/var/lib/concourse-ci-machine"))
			hosttest.Golden(t, filepath.Join("testdata", name+".txt"), story.String())
		})
	}
}

// What a person writes stays, in every order; what was ours goes.
func TestManualChangesAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		l            life
		change, with string
		after, kept  string
	}{
		"another key of Docker's": {lives["docker-20-empty-object"], "}\n}\n", "},\n    \"debug\": true\n}\n",
			"{\n    \"debug\": true\n}\n", "nothing of it is left"},
		"the runtime itself": {lives["docker-20-empty-object"], wrapper, "/opt/mine",
			"{\n    \"runtimes\": {\n        \"amd\": {\"path\":\"/opt/mine\"}\n    }\n}\n", "so it is kept: runtimes.amd"},
		"another runtime": {lives["docker-25"], "\"runtimes\": {", "\"runtimes\": {\n    \"kata\": {\"path\": \"kata\"},",
			"\n  \"data-root\": \"/srv/docker\",\n  \"runtimes\": {\n    \"kata\": {\"path\": \"kata\"}\n  }\n}\n", "nothing of it is left"},
		"another table of containerd's": {lives["containerd-1.6-Debian"], "version = 2\n", "version = 2\noom_score = -999\n",
			"version = 2\noom_score = -999\n\n[plugins]\n", "nothing of it is left"},
		"what is in our block": {lives["containerd-1.6-Debian"], wrapper, "/opt/mine", "BinaryName = \"/opt/mine\"\n", "so it is kept: runtime amd"},
		"a key beside ours": {lives["containerd-1.7-kubeadm"], "pause:3.9", "pause:3.10",
			"\n[plugins.'io.containerd.grpc.v1.cri']\n  sandbox_image = \"registry.k8s.io/pause:3.10\"\n", "nothing of it is left"},
	} {
		t.Run(name, func(t *testing.T) {
			h := machine(t, map[bool]string{true: "dockerd", false: "containerd"}[c.l.engine == "docker"], c.l.version)
			hosttest.Put(t, h.Root, c.l.file, c.l.before)
			do(t, h, Request{Engine: c.l.engine, Wrapper: wrapper})
			now, err := h.ReadFile(c.l.file)
			require.NoError(t, err)
			require.Contains(t, string(now), c.change)
			hosttest.Put(t, h.Root, c.l.file, strings.Replace(string(now), c.change, c.with, 1))
			require.Contains(t, do(t, h, Request{Engine: c.l.engine, Remove: true}), c.kept)
			left, err := h.ReadFile(c.l.file)
			require.NoError(t, err)
			require.Contains(t, string(left), c.after)
			require.Equal(t, strings.Contains(c.kept, "kept"), strings.Contains(string(left), "amd"), string(left))
		})
	}
}

func TestEngineRefusalNamesTheRemedy(t *testing.T) {
	for text, c := range map[string]struct {
		l life
		r Request
	}{
		"cannot configure \"lxc\": want one of docker, podman, containerd, crio": {life{"docker", docker20, "/etc/x", ""}, Request{Engine: "lxc", Wrapper: wrapper}},
		"program /nowhere is missing; --wrapper=PATH names":                      {life{"docker", docker20, "/etc/x", ""}, Request{Wrapper: "/nowhere"}},
		"it is not JSON; mend it first":                                          {life{"docker", docker20, "/etc/docker/daemon.json", "{\"a\": 1,}"}, Request{}},
		"the file: runtimes: it is not an object":                                {life{"docker", docker20, "/etc/docker/daemon.json", `{"runtimes": 1}`}, Request{}},
		`key "amd" is duplicate`:                                                 {life{"docker", docker20, "/etc/docker/daemon.json", `{"runtimes": {"amd": {}, "amd": {}}}`}, Request{}},
		"its first line is not of runtime configure":                             {life{"podman", "", "/etc/containers/containers.conf.d/50-amd-gpu.conf", "[engine]\n"}, Request{}},
		"it is not TOML: ":                                                       {life{"containerd", containerd16, "/etc/containerd/config.toml", "x"}, Request{}},
		"containerd config migrate prints it in a newer one":                     {life{"containerd", containerd16, "/etc/containerd/config.toml", "oom_score = 1\n"}, Request{}},
		"add this by hand:\n# Begin of":                                          {life{"containerd", containerd16, "/etc/containerd/config.toml", "version = 2\nplugins = {}\n"}, Request{}},
		"it has a runtime amd already, from another program":                     {life{"containerd", containerd16, "/etc/containerd/config.toml", "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.amd]\nruntime_type = \"x\"\n"}, Request{}},
	} {
		h := machine(t, map[string]string{"docker": "dockerd"}[c.l.engine]+map[bool]string{true: c.l.engine}[c.l.engine != "docker"], c.l.version)
		if c.l.before != "" {
			hosttest.Put(t, h.Root, c.l.file, c.l.before)
		}
		if c.r.Engine == "" {
			c.r.Engine = c.l.engine
		}
		if c.r.Wrapper == "" {
			c.r.Wrapper = wrapper
		}
		want, _, err := Want(context.Background(), h, c.r)
		if err == nil {
			_, err = plan.Diff(context.Background(), h, want...)
		}
		require.ErrorContains(t, err, text)
	}
	h := machine(t, "dockerd", docker20)
	hosttest.Link(t, h.Root, "/etc/docker/daemon.json", "/srv/daemon.json")
	want, _, err := Want(context.Background(), h, Request{Engine: "docker", Wrapper: wrapper})
	require.NoError(t, err)
	_, err = plan.Diff(context.Background(), h, want...)
	require.ErrorContains(t, err, "it is not a regular file; set --config-path=PATH to its target")
}

func TestEngineIsRestartedOnlyOnRequest(t *testing.T) {
	h := machine(t, "dockerd", docker20)
	r := Request{Engine: "docker", Wrapper: wrapper, Restart: true}
	h.Runner.(*hosttest.Runner).Answer("systemctl reload docker", "").Answer("docker info", "amd runc ")
	require.Contains(t, do(t, h, r), "3/3 systemctl reload docker (requested with --restart)\n")
	require.Empty(t, planOf(t, h, r), "nothing changed, so nothing is restarted")
}

// systemctl reload docker returns before dockerd has read its file.
func TestReloadOfDockerEndsWithItsRuntime(t *testing.T) {
	h := machine(t, "dockerd", docker20)
	asked := 0
	h.Runner.(*hosttest.Runner).Answer("systemctl reload docker", "").On("docker info", func(host.Command) (string, error) {
		asked++
		return map[bool]string{true: "amd "}[asked == 3] + "io.containerd.runc.v2 runc \n", nil
	})
	do(t, h, Request{Engine: "docker", Wrapper: wrapper, Restart: true})
	require.Equal(t, 3, asked)

	h = machine(t, "dockerd", docker20)
	h.Runner.(*hosttest.Runner).Answer("systemctl reload docker", "").Answer("docker info", "runc")
	want, _, err := Want(t.Context(), h, Request{Engine: "docker", Wrapper: wrapper, Restart: true})
	require.NoError(t, err)
	p, err := plan.Diff(t.Context(), h, want...)
	require.NoError(t, err)
	require.ErrorContains(t, p[2].Do(t.Context()), "docker info lists no runtime amd; see: sudo journalctl --unit docker")
}

// decoded is an object with its numbers as they are written: JSON has some that no float64 is.
func decoded(data []byte) (object map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return object, d.Decode(&object)
}

func FuzzDaemonJSON(f *testing.F) {
	for _, l := range lives {
		f.Add([]byte(l.before))
	}
	f.Add([]byte(`{"a":18446e4495510073}`))
	f.Add([]byte(`{"runtimes":{"Amd":{}}}`)) // names of runtimes are what they are
	f.Add([]byte("{\r\n\t\"a\" : {} ,\n \"runtimes\":{ } }"))
	parts := []part{{Name: dockerRuntime, Text: `{"path":"/x"}`}, {Name: dockerCDI, Text: "true"}, {Name: dockerDefault, Text: `"amd"`}}
	f.Fuzz(func(t *testing.T, data []byte) {
		after, put, err := daemonJSON{}.add(data, parts)
		if err != nil {
			return
		}
		left, kept, err := daemonJSON{}.remove(after, put)
		if err != nil || len(kept) > 0 || !json.Valid(left) {
			t.Fatalf("%q came of %q: %v, %q", left, data, err, kept)
		}
		was, _ := decoded(data) // nothing in it is nothing
		is, err := decoded(left)
		require.NoError(t, err)
		for _, m := range []map[string]any{was, is} { // an object that was empty may be missing
			for _, key := range []string{"runtimes", "features"} {
				if o, ok := m[key].(map[string]any); ok && len(o) == 0 {
					delete(m, key)
				}
			}
		}
		require.True(t, len(was) == 0 && len(is) == 0 || equalJSON(was, is), "%q came of %q", left, data)
	})
}

func FuzzConfigTOML(f *testing.F) {
	for _, l := range lives {
		f.Add([]byte(l.before))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		facts, err := readContainerd(data, "/etc/containerd/config.toml", 1, 7)
		if err != nil || at(facts.tree, append(facts.plugin, "runtimes", Name)...) != nil {
			return
		}
		parts := []part{{Name: "runtime amd", Text: block(facts.runtimeText("/x"))}, {Name: facts.defaultName(), Text: "  default_runtime_name = \"amd\"" + ours}}
		after, put, err := configTOML{}.add(data, parts)
		if err != nil {
			return
		}
		left, kept, err := configTOML{}.remove(after, put)
		if err != nil || len(kept) > 0 || strings.TrimRight(string(left), "\r\n") != strings.TrimRight(string(data), "\r\n") {
			t.Fatalf("%q came of %q: %v, %q", left, data, err, kept)
		}
	})
}
