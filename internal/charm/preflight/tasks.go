package preflight

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/worker"
)

// defaultHosts lists the usual hosts of builds for AMD GPUs: sources, Python packages,
// images and AMD's packages. ROCm is at repo.amd.com since 7.13; the driver and older
// releases are at repo.radeon.com.
const defaultHosts = "github.com,pypi.org,registry-1.docker.io,repo.radeon.com,repo.amd.com"

const maxHosts = 32

// hostURLs parses hosts, separated by commas. Each is a name or a URL.
func hostURLs(hosts string) (urls []string, err error) {
	for host := range strings.SplitSeq(hosts, ",") {
		host = strings.TrimSpace(host)
		address := host
		if !strings.Contains(host, "://") {
			address = "https://" + host
		}
		u, err := url.Parse(address)
		if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" ||
			strings.ContainsAny(host, " \t\r\n\"") {
			return nil, fmt.Errorf("cannot check hosts: %.100q is not a host such as pypi.org, or a URL", host)
		}
		urls = append(urls, address)
	}
	if len(urls) > maxHosts {
		return nil, fmt.Errorf("cannot check hosts: want at most %d", maxHosts)
	}
	return urls, nil
}

// setHosts sets the hosts to check: "" for defaultHosts on a GPU worker, "none" for no
// host.
func (p *preflight) setHosts(hosts string) (err error) {
	switch {
	case hosts == "none",
		hosts == "" && (p.facts.Role == model.WebRole || p.cfg.GPU.ComputeRuntime == config.RuntimeNone):
		return nil
	case hosts == "":
		hosts = defaultHosts
	}
	p.hosts, err = hostURLs(hosts)
	return err
}

// outbound checks the hosts of tasks in parallel. The charm needs none of these hosts and
// cannot list the hosts of each task, so a missing host is not a failure.
func (p *preflight) outbound(ctx context.Context) []Check {
	checks := make([]Check, len(p.hosts))
	proxy := role.ProxyOf(p.facts, p.cfg)
	var all sync.WaitGroup
	for i, address := range p.hosts {
		all.Go(func() {
			name := "host " + strings.TrimPrefix(resource.RedactURL(address), "https://")
			if err := p.reach(ctx, address, proxy); err != nil {
				checks[i] = warn(name,
					"tasks that fetch from there fail: let the machine reach it, or set hosts= to those that yours need",
					"%v", err)
				return
			}
			checks[i] = ok(name, "it answers")
		})
	}
	all.Wait()
	return checks
}

// folders checks the folders of /srv that tasks write to. Tasks can write as any user, so a
// program in these folders must not run as another user of the unit.
func (p *preflight) folders() Check {
	const name = "folders"
	names, err := worker.SrvFolders(p.Host.Root)
	given := worker.TaskFolders(p.cfg, names)
	var unsafe []string
	for _, n := range given {
		if err != nil {
			break
		}
		dir, place := worker.Srv+"/"+n, ""
		if place, err = resource.HonoursSetuid(p.Host.Root, dir); place != "" {
			unsafe = append(unsafe, dir)
		}
	}
	switch {
	case err != nil:
		return warn(name, "run findmnt on the machine", "%v", err)
	case len(unsafe) > 0:
		dir := unsafe[0]
		return warn(name,
			fmt.Sprintf(
				"the next hook does what it can for /srv; by hand, until the next boot: sudo mount --bind %[1]s "+
					"%[1]s && sudo mount -o remount,bind,nosuid,nodev %[1]s",
				dir),
			"set-user-ID programs that a task leaves in %s have an effect on this machine: not mounted "+
				"nosuid,nodev", strings.Join(unsafe, ", "))
	}
	return ok(name, "tasks get %d of %s; set-user-ID programs in it have no effect", len(given), worker.Srv)
}

// toolchain checks ROCm's user space on the unit, which tasks do not see.
func (p *preflight) toolchain() Check {
	const name = "toolchain"
	version, err := p.Host.ReadText("/opt/rocm/.info/version")
	isSMI := func(u string) bool { return u == amd.UsecaseSMI }
	wanted := strings.Join(slices.DeleteFunc(slices.Clone(p.cfg.Driver.ROCmUsecases), isSMI), ",")
	switch {
	case err == nil:
		return ok(name, "ROCm %.40s in /opt/rocm of the machine; tasks use the ROCm of their images", version)
	case wanted != "":
		return warn(name, "the next hook installs it; see what prevents it with: "+p.commands.ShowStatus(),
			"rocm-usecases is %s, but /opt/rocm has no ROCm", wanted)
	}
	return ok(name, "tasks bring ROCm in their images; rocm-usecases installs it on the machine, too")
}
