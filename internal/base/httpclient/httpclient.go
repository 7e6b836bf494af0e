// Package httpclient makes clients for HTTP servers of this machine. It sends no request.
package httpclient

import "net/http"

// Local returns a client for one request to a server of this machine or of a neighbour. It
// uses no proxy, whatever the environment has, and follows no redirect. The context of the
// request has the deadline.
func Local() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
