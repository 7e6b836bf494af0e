// Package flylogin creates the request for a token of a Concourse web, with user and
// password. It does not send it and does not interpret the answer, because the callers
// treat a refusal differently.
package flylogin

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// Request creates the request to the web at base. It uses the name and secret of
// Concourse's command line tool, which are public and equal everywhere. This client is the
// one that may log in with a password (skymarshal).
func Request(ctx context.Context, base, user, password string) (*http.Request, error) {
	form := url.Values{"grant_type": {"password"}, "username": {user}, "password": {password},
		"scope": {"openid profile email federated:id groups"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(base, "/")+"/sky/issuer/token",
		strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth("fly", "Zmx5")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	return req, nil
}

// Stay follows no redirection, because it could send a password or a token to an unknown
// server. It is for http.Client.
func Stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
