package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

func (p *preflight) cgroups() Check {
	text, err := p.Host.ReadText("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		if !p.Host.Exists("/sys/fs/cgroup") {
			return warn("cgroups", "run: findmnt /sys/fs/cgroup", "/sys/fs/cgroup is missing")
		}
		if p.Host.Exists("/sys/fs/cgroup/memory") {
			return warn("cgroups", "use a base with cgroup v2, such as ubuntu@24.04",
				"version 1; limits of tasks work, newer kernels lack it")
		}
		return failure("cgroups",
			"in an LXD container set security.nesting=true; elsewhere mount cgroup2 on /sys/fs/cgroup",
			"there are none in /sys/fs/cgroup, and tasks can't run without")
	}
	have := strings.Fields(text)
	var missing []string
	for _, c := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(have, c) {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		return warn("cgroups", "hand the controllers down from the host",
			"version 2 without %s; limits on it have no effect", strings.Join(missing, ", "))
	}
	return ok("cgroups", "version 2 with %s", strings.Join(have, " "))
}

// userns checks user namespaces, in which Concourse runs unprivileged tasks. The worker is
// root, so limits for other users do not apply.
func (p *preflight) userns() Check {
	const file = "/proc/sys/user/max_user_namespaces"
	text, err := p.Host.ReadText(file)
	n, nerr := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil || nerr != nil:
		return warn("user namespaces", "run: unshare --user true", "%s can't be read", file)
	case n == 0:
		return failure("user namespaces", "sysctl -w user.max_user_namespaces=15000",
			"%s is 0; unprivileged tasks can't run", file)
	}
	return ok("user namespaces", "%d can be made", n)
}

func (p *preflight) apparmor() Check {
	text, err := p.Host.ReadText("/sys/module/apparmor/parameters/enabled")
	if err != nil || text != "Y" {
		return ok("apparmor", "not enabled")
	}
	profile, err := p.Host.ReadText("/proc/self/attr/current")
	switch {
	case err != nil || profile == "":
		return ok("apparmor", "enabled")
	case profile != "unconfined" && !strings.Contains(profile, "lxd-") && !strings.HasSuffix(profile, "(unconfined)"):
		return warn("apparmor", "run this program unconfined, or in an LXD container with security.nesting=true",
			"this process is confined by %s; runc may be denied mounts", profile)
	}
	return ok("apparmor", "enabled; this process: %s", profile)
}

const toolTimeout = 10 * time.Second

// runcFeatures decodes the part of `runc features` that tasks depend on (OCI runtime spec,
// features.md).
type runcFeatures struct {
	MountOptions []string
	Linux        *struct {
		Namespaces []string
		Cgroup     struct{ V1, V2 *bool }
		Seccomp    struct{ Enabled *bool }
	}
}

// runc checks the runc of the installed release.
func (p *preflight) runc(ctx context.Context) Check {
	const name = "runc"
	if !p.Host.Exists(concourse.RealRunc) {
		return warn(name, "see why with: "+p.commands.ShowStatus(), "no release of Concourse is installed yet")
	}
	version := strings.TrimPrefix(release.ToolVersion(ctx, p.Host, "runc"), "runc version ")
	out, err := p.Host.Run(ctx, host.Command{
		Argv: []string{p.Host.Path(concourse.RealRunc), "features"}, ReadOnly: true,
		Deadline: toolTimeout,
	})
	if version == "" && err != nil {
		return failure(name, "run restart-services force=true, or set version", "%s does not run: %s",
			concourse.RealRunc, lastLine(err))
	}
	if err != nil { // runc 1.0 lacks the command
		return warn(name, "use a newer Concourse", "%s does not list its features", version)
	}
	var f runcFeatures
	if err := json.Unmarshal(out, &f); err != nil || f.Linux == nil {
		return warn(name, "use a newer Concourse", "%s lists features that can't be read", version)
	}
	no := func(b *bool) bool { return b != nil && !*b }
	_, v1 := p.Host.ReadText("/sys/fs/cgroup/cgroup.controllers") // fails if version 1 is mounted
	switch {
	case !slices.Contains(f.Linux.Namespaces, "user"):
		return failure(name, "use a release of Concourse's own",
			"%s does not support user namespaces; unprivileged tasks can't run", version)
	case v1 == nil && no(f.Linux.Cgroup.V2):
		return failure(name, "use a newer Concourse", "%s does not support this machine's cgroups of version 2",
			version)
	case !slices.Contains(f.MountOptions, "rro"):
		return warn(name, "use a newer Concourse, or no mounts below folders of /srv",
			"%s can't make mounts below folders of /srv read-only", version)
	case no(f.Linux.Seccomp.Enabled):
		return warn(name, "use a release of Concourse's own",
			"%s is built without seccomp; system calls of tasks are not filtered", version)
	}
	return ok(name, "%s, with user namespaces, cgroups 2, rro and seccomp", version)
}

func lastLine(err error) string {
	if c, ok := errors.AsType[*host.CommandError](err); ok && c.LastLine() != "" {
		return c.LastLine()
	}
	return err.Error()
}
