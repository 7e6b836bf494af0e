package resource

import (
	"errors"
	"net/http"
	"net/url"

	"golang.org/x/net/http/httpproxy"
)

// Proxies holds the proxies for downloads. The URLs may contain passwords, so they are
// passed in environments, never in argv or logs. If all are empty, the process's own
// environment applies.
type Proxies struct{ HTTP, HTTPS, No string }

// Env returns the proxies as variables for commands, or none.
func (p Proxies) Env() []string {
	var env []string
	for _, kv := range [][2]string{{"http_proxy", p.HTTP}, {"https_proxy", p.HTTPS}, {"no_proxy", p.No}} {
		if kv[1] != "" {
			env = append(env, kv[0]+"="+kv[1])
		}
	}
	return env
}

// Func returns the proxies for http.Transport. The code that Concourse, a Go program, uses
// decides about No.
func (p Proxies) Func() func(*http.Request) (*url.URL, error) {
	if p == (Proxies{}) {
		return http.ProxyFromEnvironment
	}
	// Not the addresses themselves, because ProxyFunc ignores a proxy with an invalid
	// address.
	decide := (&httpproxy.Config{HTTPProxy: "http://proxy", HTTPSProxy: "http://proxy", NoProxy: p.No}).ProxyFunc()
	return func(r *http.Request) (*url.URL, error) {
		proxy := p.HTTP
		if r.URL.Scheme == "https" {
			proxy = p.HTTPS
		}
		if via, err := decide(r.URL); proxy == "" || via == nil {
			return nil, err
		}
		u, err := url.Parse(proxy)
		if err != nil || u.Host == "" {
			return nil, errors.New("the proxy's address is not a URL")
		}
		return u, nil
	}
}
