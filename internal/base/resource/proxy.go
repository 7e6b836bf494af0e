package resource

import (
	"errors"
	"net/http"
	"net/url"

	"golang.org/x/net/http/httpproxy"
)

// Proxies are the proxies for what is fetched from outside. The URLs may hold
// passwords: they travel in environments, never in argv or logs. All empty
// means those of the process's own environment.
type Proxies struct{ HTTP, HTTPS, No string }

// Env is the proxies as commands read them, empty where none is given.
func (p Proxies) Env() []string {
	var env []string
	for _, kv := range [][2]string{{"http_proxy", p.HTTP}, {"https_proxy", p.HTTPS}, {"no_proxy", p.No}} {
		if kv[1] != "" {
			env = append(env, kv[0]+"="+kv[1])
		}
	}
	return env
}

// Func is the proxies as http.Transport reads them. What No says is decided by
// the code that Concourse itself, a program in Go, decides it with.
func (p Proxies) Func() func(*http.Request) (*url.URL, error) {
	if p == (Proxies{}) {
		return http.ProxyFromEnvironment
	}
	// Not the addresses themselves: it passes by a proxy whose address is wrong.
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
