package concourse

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Proxy is how the worker and its downloads reach other machines. The URLs
// may hold a password: they are never printed.
type Proxy struct {
	HTTP, HTTPS string // "" or a URL
	No          string // hosts with commas between them
}

// pick chooses the proxy of a request, for http.Transport.
func (p Proxy) pick(r *http.Request) (*url.URL, error) {
	proxy := p.HTTP
	if r.URL.Scheme == "https" {
		proxy = p.HTTPS
	}
	if proxy == "" || p.direct(r.URL) {
		return nil, nil
	}
	u, err := url.Parse(proxy)
	if err != nil || u.Host == "" {
		return nil, errors.New("the proxy's address is not a URL")
	}
	return u, nil
}

// direct reads no_proxy as curl and Go do: host names match themselves and
// what is below them, addresses and networks match addresses, a port narrows
// an entry, * is everything. This machine itself is always reached directly.
func (p Proxy) direct(u *url.URL) bool {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	ip, err := netip.ParseAddr(host)
	isIP := err == nil
	if host == "localhost" || isIP && ip.IsLoopback() {
		return true
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	for entry := range strings.SplitSeq(p.No, ",") {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if entry == "*" {
			return true
		}
		if network, err := netip.ParsePrefix(entry); err == nil {
			if isIP && network.Contains(ip) {
				return true
			}
			continue
		}
		if at := strings.LastIndexByte(entry, ':'); at >= 0 && strings.Count(entry, ":") == 1 {
			if entry[at+1:] != port {
				continue
			}
			entry = entry[:at]
		}
		entry = strings.TrimPrefix(strings.TrimPrefix(entry, "*"), ".")
		if entry == "" {
			continue
		}
		if other, err := netip.ParseAddr(entry); err == nil {
			if isIP && other == ip {
				return true
			}
			continue
		}
		if host == entry || !isIP && strings.HasSuffix(host, "."+entry) {
			return true
		}
	}
	return false
}
