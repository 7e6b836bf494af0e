package preflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"

	"github.com/fourdollars/concourse-ci-machine/internal/base/httpclient"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// source describes a place that the unit downloads from.
type source struct {
	name, url string
	required  bool // its packages are not installed
	remedy    string
}

// proxies is the remedy for each source.
const proxies = "let the machine reach it, through http-proxy, https-proxy and no-proxy if there is a proxy"

// sourcesInUse returns the sources that the options require.
func (p *preflight) sourcesInUse() []source {
	var all []source
	if _, _, installed := release.Installed(p.Host.Root); !role.Attached(p.facts.Resource) {
		from, remedy := p.cfg.Release.Mirror, proxies
		if from == "" {
			from, remedy = release.Upstream, proxies+"; or set release-mirror, or run: "+p.commands.GiveRelease()
		}
		all = append(all, source{"Concourse's releases", from, !installed, remedy})
	}
	if p.facts.Role == model.WebRole {
		return all
	}
	if v, ok := vendors[p.cfg.GPU.ComputeRuntime.Vendor()]; ok {
		all = append(all, v.sources(p)...)
	}
	return all
}

// sources checks all sources in parallel.
func (p *preflight) sources(ctx context.Context) []Check {
	used := p.sourcesInUse()
	checks := make([]Check, len(used))
	var all sync.WaitGroup
	proxy := role.ProxyOf(p.facts, p.cfg)
	for i, s := range used {
		all.Go(func() {
			err := p.reach(ctx, s.url, proxy)
			name := "source " + s.name
			switch {
			case err == nil:
				checks[i] = ok(name, "%s answers", resource.RedactURL(s.url))
			case s.required:
				checks[i] = failure(name, s.remedy, "%s: %v", resource.RedactURL(s.url), err)
			default:
				checks[i] = warn(name, s.remedy, "%s: %v", resource.RedactURL(s.url), err)
			}
		})
	}
	all.Wait()
	return checks
}

// reach sends a HEAD request. Any answer of the server is good, because folders of a
// repository are often forbidden. A proxy that requires a login and a server error are not.
func reach(ctx context.Context, address string, p resource.Proxies) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return errors.New("it is not a URL")
	}
	resp, err := httpclient.New(httpclient.Options{Proxy: p.Func(), Timeout: reachTimeout}).Do(req)
	if err != nil {
		return unreachable(err)
	}
	resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return errors.New("the proxy wants another name or password")
	case resp.StatusCode >= 500:
		return fmt.Errorf("it answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return nil
}

// unreachable returns the reason without the address of a proxy, which may contain a
// password.
func unreachable(err error) error {
	var op *net.OpError
	var dns *net.DNSError
	var at *url.Error
	switch {
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return errors.New("the proxy does not answer")
	case errors.As(err, &dns):
		return errors.New("its name can't be resolved")
	case errors.As(err, &at) && at.Timeout():
		return fmt.Errorf("no answer within %s", reachTimeout)
	case errors.As(err, &op):
		return fmt.Errorf("cannot connect: %w", op.Err)
	case errors.As(err, &at):
		return at.Err
	}
	return err
}
