//go:build e2e

package web

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// login gets a token of one web, as fly does.
func login(t *testing.T, u *unit) string {
	t.Helper()
	form := url.Values{"grant_type": {"password"}, "username": {"admin"}, "password": {u.secrets.AdminPassword}, "scope": {"openid profile email federated:id groups"}}
	req, err := http.NewRequest(http.MethodPost, u.url()+"/sky/issuer/token", strings.NewReader(form.Encode()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth("fly", "Zmx5")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer struct {
		Token string `json:"access_token"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	require.NotEmpty(t, answer.Token)
	return answer.Token
}

// request asks a web with a token.
func (u *unit) request(token, method, path, body string) (status int, answer string) {
	u.t.Helper()
	req, err := http.NewRequest(method, u.url()+path, strings.NewReader(body))
	require.NoError(u.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/x-yaml")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(u.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(u.t, err)
	return resp.StatusCode, string(data)
}
