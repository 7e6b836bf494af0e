package preflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"

	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse/release"
	"concourse-ci-machine/internal/gpu/amd"
	"concourse-ci-machine/internal/gpu/nvidia"
)

// source is a place that the unit fetches from.
type source struct {
	name, url string
	needed    bool // what comes from there is not here yet
	remedy    string
}

// used are the sources that the options make the unit fetch from.
func (p *preflight) used() []source {
	var all []source
	const proxies = "let the unit reach it, by http-proxy, https-proxy and no-proxy where there is a proxy"
	if _, _, installed := release.Installed(p.Host.Root); !role.Attached(p.facts.Resource) {
		from, remedy := p.cfg.ReleaseMirror, proxies
		if from == "" {
			from, remedy = release.Upstream, proxies+"; or set release-mirror, or attach the resource concourse-release"
		}
		all = append(all, source{"Concourse's releases", from, !installed, remedy})
	}
	if p.facts.Role == model.WebRole {
		return all
	}
	vendor := p.cfg.ComputeRuntime
	if base := p.cfg.ROCmBaseURL; vendor == "rocm" && p.cfg.AMDContainerToolkit != "skip" {
		if base == "" {
			base = amd.BaseURL
		}
		s, err := amd.ObserveToolkit(p.Host.Root)
		all = append(all, source{"AMD's packages", base, err == nil && p.cfg.AMDContainerToolkit == "required" && !s.Package.Installed(), proxies + "; or set rocm-base-url to a mirror"})
	}
	if vendor == "cuda" {
		s, err := nvidia.Observe(p.Host.Root)
		all = append(all, source{"NVIDIA's packages", nvidia.BaseURL, err == nil && !s.Tool, proxies + "; or install nvidia-container-toolkit by hand"})
	}
	return all
}

// sources asks all of them at once.
func (p *preflight) sources(ctx context.Context) []Check {
	used := p.used()
	checks := make([]Check, len(used))
	var all sync.WaitGroup
	proxy := role.ProxyOf(p.facts, p.cfg)
	for i, s := range used {
		all.Go(func() {
			err := p.reach(ctx, s.url, proxy)
			name := "source " + s.name
			switch {
			case err == nil:
				checks[i] = ok(name, "%s answers", shownURL(s.url))
			case s.needed:
				checks[i] = failure(name, s.remedy, "%s: %v", shownURL(s.url), err)
			default:
				checks[i] = warn(name, s.remedy, "%s: %v", shownURL(s.url), err)
			}
		})
	}
	all.Wait()
	return checks
}

// shownURL is a URL without a password.
func shownURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "the configured URL"
	}
	return u.Redacted()
}

// reach asks a server for its head. Any answer of its own will do: folders of a
// repository are often forbidden. A proxy that wants a login, and a server that
// is broken, are none.
func reach(ctx context.Context, address string, p resource.Proxies) error {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return errors.New("it is not a URL")
	}
	t := &http.Transport{Proxy: p.Func(), DisableKeepAlives: true}
	defer t.CloseIdleConnections()
	client := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
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

// unreachable says why, without a proxy's address, which may hold a password.
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
		return fmt.Errorf("no answer within %s", reachTime)
	case errors.As(err, &op):
		return fmt.Errorf("cannot connect: %w", op.Err)
	case errors.As(err, &at):
		return at.Err
	}
	return err
}
