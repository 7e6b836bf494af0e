// Package flylogin asks a web of Concourse for a token by user and password. What
// comes of it is read where it is used: what a refusal means differs.
package flylogin

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// Request asks the web at base. Concourse's command line tool is a public client,
// whose name and secret are the same everywhere, and the one that may log in with a
// password (skymarshal).
func Request(ctx context.Context, base, user, password string) (*http.Request, error) {
	form := url.Values{"grant_type": {"password"}, "username": {user}, "password": {password},
		"scope": {"openid profile email federated:id groups"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(base, "/")+"/sky/issuer/token", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth("fly", "Zmx5")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	return req, nil
}

// Stay follows no redirection, which would take a password or a token to where
// nobody has said that it may go; it is for http.Client.
func Stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
