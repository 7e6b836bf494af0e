package preflight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/nvidia"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const runcFull = `{"mountOptions":["ro","rro"],"linux":{"namespaces":["mount","user"],"cgroup":{"v1":true,"v2":true},"seccomp":{"enabled":true}}}`

// fit returns a machine that passes every check.
func fit(t *testing.T, hostName string, set map[string]any) (*preflight, *hosttest.Runner) {
	t.Helper()
	r := hosttest.NewRunner(t)
	h := host.Host{Root: hosttest.Host(t, hostName), Runner: r, Clock: hosttest.Clock{T: hosttest.Now}}
	for path, text := range map[string]string{
		"/proc/cpuinfo":                           "processor\t: 0\nmodel name\t: x\n\nprocessor\t: 1\n",
		"/proc/meminfo":                           "MemTotal:       65536000 kB\nMemFree: 1 kB\n",
		"/sys/fs/cgroup/cgroup.controllers":       "cpuset cpu io memory pids\n",
		"/proc/sys/user/max_user_namespaces":      "96365\n",
		"/sys/module/apparmor/parameters/enabled": "Y\n",
		"/proc/self/attr/current":                 "lxd-juju-1_</var/snap/lxd> (enforce)\n",
		"/etc/group":                              "root:x:0:\nvideo:x:44:\nrender:x:992:\n",
		"/var/lib/dpkg/status":                    "Package: " + amd.ToolkitPackage + "\nStatus: install ok installed\nVersion: 1.2.0\n\n",
		concourse.RealRunc:                        "",
	} {
		hosttest.Put(t, h.Root, path, text)
	}
	r.Answer(h.Path(concourse.RealRunc)+" --version", "runc version 1.3.4\ncommit: x\n").Answer(h.Path(concourse.RealRunc)+" features", runcFull)
	raw := map[string]any{"mode": "worker", "amd-container-toolkit": "auto"}
	maps.Copy(raw, set)
	require.NoError(t, model.Save(h.Root, model.Facts{}, model.Facts{Unit: "x/0", Role: model.WorkerRole, Config: raw}))
	p, err := newPreflight(h, wellknown.Dispatch)
	require.NoError(t, err)
	p.free = func(string) (uint64, uint64, error) { return 400 * units.GB, 50 * units.GB, nil }
	p.synced = func() (bool, error) { return true, nil }
	p.rotates = func(string) bool { return false }
	p.reach = func(context.Context, string, resource.Proxies) error { return nil }
	return p, r
}

func named(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	for _, c := range checks {
		if c.Name == name {
			return c
		}
	}
	require.Fail(t, "there is no check "+name)
	return Check{}
}

func TestFitMachinePassesAllChecks(t *testing.T) {
	p, _ := fit(t, "amd", map[string]any{"compute-runtime": "rocm"})
	checks := p.run(context.Background())
	var names []string
	for _, c := range checks {
		require.Equal(t, OK, c.Level, "%s: %s", c.Name, c.Text)
		require.Empty(t, c.Remedy, c.Name)
		names = append(names, c.Name)
	}
	require.Equal(t, []string{"series", "kernel", "cpu", "memory", "disk /", "time", "cgroups", "user namespaces", "apparmor", "runc", "folders",
		"node /dev/kfd", "node /dev/dri/renderD128", "gpu", "groups", "toolkit", "toolchain", "profile", "source Concourse's releases", "source AMD's packages"}, names)
	require.Equal(t, "1.3.4, with user namespaces, cgroups 2, rro and seccomp", named(t, checks, "runc").Text)
	require.Equal(t, "2 processors", named(t, checks, "cpu").Text)
	require.Equal(t, "67.1 GB", named(t, checks, "memory").Text)
	require.Equal(t, "50.0 GB of 400.0 GB are free", named(t, checks, "disk /").Text)
	var b bytes.Buffer
	require.NoError(t, writePreflight(&b, term.Format{}, checks))
	require.Contains(t, b.String(), "ok       groups: video 44, render 992\n")
}

// Each check with the causes of other results.
func TestPreflightNamesProblemsAndRemedies(t *testing.T) {
	file := func(path, text string) func(*testing.T, *preflight, *hosttest.Runner) {
		return func(t *testing.T, p *preflight, _ *hosttest.Runner) {
			hosttest.Put(t, p.Host.Root, path, text)
			p.machine = machine.Observe(p.Host.Root)
		}
	}
	gone := func(paths ...string) func(*testing.T, *preflight, *hosttest.Runner) {
		return func(t *testing.T, p *preflight, _ *hosttest.Runner) {
			for _, path := range paths {
				require.NoError(t, os.RemoveAll(p.Host.Path(path)))
			}
			p.machine = machine.Observe(p.Host.Root)
		}
	}
	space := func(total, free uint64, err error) func(*testing.T, *preflight, *hosttest.Runner) {
		return func(_ *testing.T, p *preflight, _ *hosttest.Runner) {
			p.free = func(string) (uint64, uint64, error) { return total, free, err }
		}
	}
	metal := func(synced bool, err error) func(*testing.T, *preflight, *hosttest.Runner) {
		return func(t *testing.T, p *preflight, r *hosttest.Runner) {
			gone("/run/systemd/container")(t, p, r)
			p.synced = func() (bool, error) { return synced, err }
		}
	}
	runc := func(features string) func(*testing.T, *preflight, *hosttest.Runner) {
		return func(_ *testing.T, p *preflight, r *hosttest.Runner) {
			r.Answer(p.Host.Path(concourse.RealRunc)+" features", features)
		}
	}
	noToolkit := func(attempt string) func(*testing.T, *preflight, *hosttest.Runner) {
		return func(t *testing.T, p *preflight, _ *hosttest.Runner) {
			hosttest.Put(t, p.Host.Root, "/var/lib/dpkg/status", "")
			hosttest.Put(t, p.Host.Root, "/var/lib/concourse-ci-machine/toolkit-attempt.json", attempt)
		}
	}
	features := func(old, new string) string { return strings.Replace(runcFull, old, new, 1) }
	for name, c := range map[string]struct {
		change       func(*testing.T, *preflight, *hosttest.Runner)
		check        string
		level        Level
		text, remedy string
	}{
		"Debian":         {file("/etc/os-release", "ID=debian\nVERSION_CODENAME=trixie\n"), "series", Warning, "debian trixie is not tested with this charm", "ubuntu@24.04"},
		"Ubuntu 26.04":   {file("/etc/os-release", "ID=ubuntu\nVERSION_CODENAME=resolute\n"), "series", OK, "Ubuntu resolute", ""},
		"newer series":   {file("/etc/os-release", "ID=ubuntu\nVERSION_CODENAME=plucky\n"), "series", Warning, "ubuntu plucky is not tested", "ubuntu@24.04"},
		"no series":      {gone("/etc/os-release"), "series", Warning, "names no series", "ubuntu@24.04"},
		"ancient kernel": {file("/proc/sys/kernel/osrelease", "4.15.0-200-generic\n"), "kernel", Failure, "Linux 4.15.0-200-generic is too old", "5.15"},
		"old kernel":     {file("/proc/sys/kernel/osrelease", "5.4.0-100-generic\n"), "kernel", Warning, "can't make mounts below folders of /srv read-only", "5.12"},
		"odd kernel":     {file("/proc/sys/kernel/osrelease", "next\n"), "kernel", Warning, "can't be read", "uname"},
		"Linux 4.18":     {file("/proc/sys/kernel/osrelease", "4.18.0-553.el8\n"), "kernel", Failure, "is too old", "5.15"},
		"Linux 4.19":     {file("/proc/sys/kernel/osrelease", "4.19.0-27-amd64\n"), "kernel", Warning, "read-only for tasks", "5.12"},
		"no kernel":      {gone("/proc/sys/kernel/osrelease"), "kernel", Warning, "can't be read", "uname"},
		"one processor":  {file("/proc/cpuinfo", "processor : 0\n"), "cpu", Warning, "1 processor;", "cores=2"},
		"no processor":   {file("/proc/cpuinfo", "Features : fp\n"), "cpu", Warning, "names no processor", "nproc"},
		"little memory":  {file("/proc/meminfo", "MemTotal: 2000000 kB\n"), "memory", Warning, "2.0 GB, less than 4.0 GB", "more memory"},
		"enough memory":  {file("/proc/meminfo", "MemTotal: 3906250 kB\n"), "memory", OK, "4.0 GB", ""},
		"no memory":      {file("/proc/meminfo", "x\n"), "memory", Warning, "has no total", "free"},
		"full disk":      {space(100*units.GB, 4*units.GB, nil), "disk /", Failure, "4.0 GB of 100.0 GB are free; builds fail soon", "larger disk"},
		"little disk":    {space(100*units.GB, 19*units.GB, nil), "disk /", Warning, "free, less than 20.0 GB", "larger disk"},
		"5 GB are free":  {space(100*units.GB, 5*units.GB, nil), "disk /", Warning, "free, less than 20.0 GB", "larger disk"},
		"20 GB are free": {space(100*units.GB, 20*units.GB, nil), "disk /", OK, "20.0 GB of 100.0 GB are free", ""},
		"a small disk":   {space(8*units.GB, 2*units.GB, nil), "disk /", Warning, "2.0 GB of 8.0 GB", "larger disk"},
		"unknown disk":   {space(0, 0, errors.New("input/output error")), "disk /", Warning, "input/output error", "df"},
		"clock of 1970": {func(_ *testing.T, p *preflight, _ *hosttest.Runner) {
			p.Host.Clock = hosttest.Clock{T: time.Unix(0, 0)}
		}, "time", Failure, "the clock shows 1970-01-01", "timedatectl"},
		"no time server": {metal(false, nil), "time", Warning, "no time server keeps it right", "timedatectl set-ntp true"},
		"time not known": {metal(false, errors.New("not permitted")), "time", Warning, "not permitted", "timedatectl"},
		"cgroup 1": {func(t *testing.T, p *preflight, r *hosttest.Runner) {
			gone("/sys/fs/cgroup/cgroup.controllers")(t, p, r)
			hosttest.Put(t, p.Host.Root, "/sys/fs/cgroup/memory/tasks", "")
		}, "cgroups", Warning, "version 1", "cgroup v2"},
		"no cgroups":       {gone("/sys/fs/cgroup/cgroup.controllers"), "cgroups", Failure, "tasks can't run without", "security.nesting=true"},
		"no cgroup folder": {gone("/sys/fs/cgroup"), "cgroups", Warning, "/sys/fs/cgroup is missing", "findmnt"},
		"few controllers":  {file("/sys/fs/cgroup/cgroup.controllers", "cpu pids\n"), "cgroups", Warning, "version 2 without memory", "from the host"},
		"set-user-ID programs": {func(t *testing.T, p *preflight, _ *hosttest.Runner) {
			require.NoError(t, p.Host.MkdirAll("/srv/cache_rw", 0o755))
			hosttest.Put(t, p.Host.Root, "/proc/self/mountinfo", "20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n")
		}, "folders", Warning, "a task leaves in /srv/cache_rw have an effect on this machine", "sudo mount -o remount,bind,nosuid,nodev /srv/cache_rw"},
		"mounts not known": {func(t *testing.T, p *preflight, _ *hosttest.Runner) {
			require.NoError(t, p.Host.MkdirAll("/srv/cache_rw", 0o755))
			hosttest.Put(t, p.Host.Root, "/proc/self/mountinfo", "x\n")
		}, "folders", Warning, "cannot read the mounts of this machine", "findmnt"},
		"does not support user namespaces": {file("/proc/sys/user/max_user_namespaces", "0\n"), "user namespaces", Failure, "unprivileged tasks can't run", "sysctl -w"},
		"userns not known":                 {gone("/proc/sys/user"), "user namespaces", Warning, "can't be read", "unshare"},
		"confined":                         {file("/proc/self/attr/current", "snap.x (enforce)\n"), "apparmor", Warning, "confined by snap.x (enforce)", "security.nesting"},
		"no release":                       {gone(concourse.RealRunc), "runc", Warning, "no release of Concourse is installed yet", "juju status"},
		"runc that fails": {func(_ *testing.T, p *preflight, r *hosttest.Runner) {
			r.Fail(p.Host.Path(concourse.RealRunc)+" features", 1, "x").Fail(p.Host.Path(concourse.RealRunc)+" --version", 126, "exec format error")
		}, "runc", Failure, "does not run", "restart-services"},
		"runc 1.0": {func(_ *testing.T, p *preflight, r *hosttest.Runner) {
			r.Fail(p.Host.Path(concourse.RealRunc)+" features", 1, "No help topic for 'features'")
		}, "runc", Warning, "1.3.4 does not list its features", "newer"},
		"runc's nonsense":     {runc("x"), "runc", Warning, "features that can't be read", "newer"},
		"runc without userns": {runc(features(`,"user"`, "")), "runc", Failure, "does not support user namespaces", "release"},
		"runc without v2":     {runc(features(`"v2":true`, `"v2":false`)), "runc", Failure, "machine's cgroups of version 2", "newer"},
		"runc without rro":    {runc(features(`,"rro"`, "")), "runc", Warning, "can't make mounts below folders of /srv read-only", "newer"},
		"no seccomp":          {runc(features(`"enabled":true`, `"enabled":false`)), "runc", Warning, "without seccomp", "release"},
		"no group render":     {file("/etc/group", "video:x:44:\n"), "groups", Warning, "no group render", "groupadd --system render"},
		"no groups":           {file("/etc/group", "root:x:0:\n"), "groups", Warning, "no group video and no group render", "groupadd"},
		"no kfd":              {gone("/dev/kfd"), "gpu", Failure, "no /dev/kfd", "lxc config device add"},
		"no node":             {gone("/dev/dri/renderD128"), "gpu", Failure, "no AMD GPU passed through", "lxc config device add"},
		"no toolkit":          {file("/var/lib/dpkg/status", ""), "toolkit", Warning, "amd-container-toolkit is not installed", "next hook"},
		"no way to AMD":       {noToolkit(`{"attempt":2,"error":"cannot reach repo.radeon.com","unreachable":true}`), "toolkit", OK, "cannot reach repo.radeon.com (attempt 2); tasks get their GPUs without it", ""},
		"AMD refuses":         {noToolkit(`{"attempt":2,"error":"repo.radeon.com answered 404"}`), "toolkit", Warning, "answered 404 (attempt 2)", "amd-container-toolkit=skip"},
		"half a toolkit":      {file("/var/lib/dpkg/status", "Package: "+amd.ToolkitPackage+"\nStatus: install ok half-configured\nVersion: 1\n\n"), "toolkit", Warning, "half-configured", "dpkg --configure -a"},
		"memory of a web":     {file("/proc/meminfo", "MemTotal: 16384000 kB\n"), "profile", Warning, "16.8 GB of memory; builds for ROCm need 64.0 GB", "larger machine"},
		"disk of a web":       {space(100*units.GB, 50*units.GB, nil), "profile", Warning, "a disk of 100.0 GB; images and caches of ROCm builds need 200.0 GB", "larger machine"},
		"disk that rotates": {func(_ *testing.T, p *preflight, _ *hosttest.Runner) {
			p.rotates = func(folder string) bool { return folder == "/" }
		}, "profile", Warning, "the disk of / rotates", "SSD"},
		"no ROCm yet": {func(_ *testing.T, p *preflight, _ *hosttest.Runner) {
			p.cfg.Driver.ROCmUsecases = []string{"hip", "smi", "opencl"}
		}, "toolchain", Warning,
			"rocm-usecases is hip,opencl, but /opt/rocm has no ROCm", "next hook"},
		"host unreachable": {func(t *testing.T, p *preflight, _ *hosttest.Runner) {
			require.NoError(t, p.setHosts(""))
			p.reach = unreached
		}, "host pypi.org", Warning, "no answer", "hosts="},
		"release unreachable": {func(_ *testing.T, p *preflight, _ *hosttest.Runner) { p.reach = unreached }, "source Concourse's releases", Failure, "https://github.com/concourse/concourse/releases/download: no answer", "release-mirror"},
		"AMD unreachable":     {func(_ *testing.T, p *preflight, _ *hosttest.Runner) { p.reach = unreached }, "source AMD's packages", Warning, "https://repo.radeon.com: no answer", "rocm-base-url"},
	} {
		p, r := fit(t, "amd", map[string]any{"compute-runtime": "rocm"})
		c.change(t, p, r)
		checks := p.run(context.Background())
		got := named(t, checks, c.check)
		require.Equal(t, c.level, got.Level, "%s: %s", name, got.Text)
		require.Contains(t, got.Text, c.text, name)
		require.Contains(t, got.Remedy, c.remedy, name)
		require.NotRegexp(t, `\bunit\b`, got.Text+"\n"+got.Remedy, "a machine without Juju is no unit")
		var b bytes.Buffer
		err := writePreflight(&b, term.Format{JSON: true}, checks)
		var out struct {
			OK     bool
			Checks []Check
		}
		require.NoError(t, json.Unmarshal(b.Bytes(), &out), name)
		require.Equal(t, checks, out.Checks, name)
		require.Equal(t, err == nil, out.OK, name)
		if c.level == Failure {
			require.False(t, out.OK, name)
			require.ErrorContains(t, err, c.check+": ", name)
		}
	}
}

func unreached(context.Context, string, resource.Proxies) error { return errors.New("no answer") }

// Hosts of tasks are checked on GPU workers, or if hosts are named. A missing host is not a
// failure, because the charm does not have the hosts of each task.
func TestHostsOfTasksAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		runtime, hosts string
		want           []string
		err            string
	}{
		"usual":        {"rocm", "", []string{"https://github.com", "https://pypi.org", "https://registry-1.docker.io", "https://repo.radeon.com", "https://repo.amd.com"}, ""},
		"without GPUs": {"none", "", nil, ""},
		"none":         {"rocm", "none", nil, ""},
		"some":         {"none", "pypi.example:8443, http://mirror/simple", []string{"https://pypi.example:8443", "http://mirror/simple"}, ""},
		"empty":        {"rocm", "pypi.org,", nil, `cannot check hosts: "" is not a host such as pypi.org, or a URL`},
		"a space":      {"rocm", "pypi org", nil, `cannot check hosts: "pypi org" is not a host such as pypi.org, or a URL`},
		"a file":       {"rocm", "file:///etc/passwd", nil, `cannot check hosts: "file:///etc/passwd" is not a host such as pypi.org, or a URL`},
		"many":         {"rocm", "a" + strings.Repeat(",a", 32), nil, "cannot check hosts: want at most 32"},
	} {
		p, _ := fit(t, "amd", map[string]any{"compute-runtime": c.runtime})
		err := p.setHosts(c.hosts)
		if c.err != "" {
			require.EqualError(t, err, c.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.want, p.hosts, name)
	}
	p, _ := fit(t, "amd", map[string]any{"compute-runtime": "rocm"})
	require.NoError(t, p.setHosts("pypi.org,http://u:secret@mirror/simple"))
	var asked sync.Map
	p.reach = func(_ context.Context, url string, _ resource.Proxies) error { asked.Store(url, true); return nil }
	checks := p.run(context.Background())
	require.Equal(t, "it answers", named(t, checks, "host pypi.org").Text)
	require.Equal(t, OK, named(t, checks, "host http://u:xxxxx@mirror/simple").Level)
	_, known := asked.Load("http://u:secret@mirror/simple")
	require.True(t, known)

	hosttest.Put(t, p.Host.Root, "/opt/rocm/.info/version", "6.4.3-128\n")
	require.Equal(t, "ROCm 6.4.3-128 in /opt/rocm of the machine; tasks use the ROCm of their images", named(t, p.run(context.Background()), "toolchain").Text)
}

func TestPreflightOfNVIDIA(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		level Level
		text  string
	}{
		"nothing": {nil, Warning, "nvidia-ctk is missing"},
		"failed": {map[string]string{"/var/lib/concourse-ci-machine/nvidia-attempt.json": `{"attempt":2,"error":"cannot reach nvidia.github.io"}`},
			Failure, "NVIDIA GPUs not described: cannot reach nvidia.github.io (attempt 2)"},
		"foreign": {map[string]string{nvidia.Path: `{"devices":[{"name":"0"}]}`}, OK, "is not the charm's, and is kept"},
		"package": {map[string]string{"/var/lib/dpkg/status": "Package: " + nvidia.Package + "\nStatus: install ok installed\nVersion: 1.17.8-1\n\n"}, OK, nvidia.Package + " 1.17.8-1"},
		"broken":  {map[string]string{"/var/lib/dpkg/status": "Package: " + nvidia.Package + "\nStatus: install ok unpacked\nVersion: 1\n\n"}, Warning, "unpacked"},
		"by hand": {map[string]string{"/usr/local/bin/nvidia-ctk": ""}, OK, "not from a package"},
	} {
		p, _ := fit(t, "nvidia-only", map[string]any{"compute-runtime": "cuda"})
		for path, text := range c.files {
			hosttest.Put(t, p.Host.Root, path, text)
		}
		checks := p.run(context.Background())
		got := named(t, checks, "toolkit")
		require.Equal(t, c.level, got.Level, "%s: %s", name, got.Text)
		require.Contains(t, got.Text, c.text, name)
		named(t, checks, "source NVIDIA's packages")
	}
}

// A web and a worker without GPUs have no checks of GPUs.
func TestPreflightChecksOnlyRequiredSources(t *testing.T) {
	p, _ := fit(t, "no-gpu", nil)
	require.Equal(t, "compute-runtime is none: tasks get no GPUs", named(t, p.run(context.Background()), "gpu").Text)
	require.NoError(t, model.Save(p.Host.Root, model.Facts{}, model.Facts{Unit: "x/0", Role: model.WebRole, Config: map[string]any{"mode": "web"}}))
	p, err := newPreflight(p.Host, wellknown.Dispatch)
	require.NoError(t, err)
	p.reach = unreached
	for _, c := range p.run(context.Background()) {
		require.NotContains(t, []string{"gpu", "cgroups", "runc", "groups"}, c.Name)
	}
	resourceFile := filepath.Join(t.TempDir(), "release.tgz")
	require.NoError(t, os.WriteFile(resourceFile, []byte("x"), 0o600))
	p.facts.Resource = resourceFile
	require.Empty(t, p.sources(context.Background()), "an attached release is fetched from nowhere")
}

func TestReachUsesHTTP(t *testing.T) {
	code := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, http.MethodHead, r.Method)
		w.WriteHeader(code)
	}))
	defer s.Close()
	ctx := context.Background()
	for answer, want := range map[int]string{200: "", 302: "", 403: "", 404: "", 407: "the proxy wants another name or password", 502: "it answers 502 Bad Gateway"} {
		code = answer
		err := reach(ctx, s.URL, resource.Proxies{})
		if want == "" {
			require.NoError(t, err, answer)
			continue
		}
		require.EqualError(t, err, want)
	}
	code = http.StatusOK
	require.NoError(t, reach(ctx, "http://repository.invalid/x", resource.Proxies{HTTP: s.URL}), "by the proxy")
	require.EqualError(t, reach(ctx, "http://repository.invalid/x", resource.Proxies{HTTP: "http://user:secret@127.0.0.1:9"}), "the proxy does not answer")
	require.ErrorContains(t, reach(ctx, "http://127.0.0.1:9", resource.Proxies{No: "*"}), "cannot connect: ")
	require.EqualError(t, reach(ctx, "http://\x7f", resource.Proxies{}), "it is not a URL")
	require.Equal(t, "http://u:xxxxx@h/x", resource.RedactURL("http://u:p@h/x"))
	require.Equal(t, "the configured URL", resource.RedactURL("http://\x7f"))
}
