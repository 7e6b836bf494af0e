package webclient

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// renewBefore is the longest time before its end at which a token is replaced. For a
	// short token it is a tenth of its life.
	renewBefore = 5 * time.Minute
	// maxLife bounds the life that a token claims.
	maxLife = 30 * 24 * time.Hour
	// RefusedPause is the time for which refused credentials are not tried again. Each try
	// costs the web a slow hash, and may lock an account of a directory.
	RefusedPause = 5 * time.Minute
)

// token holds the result of a login. The zero token is none.
type token struct {
	text    string
	renew   time.Time  // zero: never
	refused *CallError // the login was refused; not tried again before renew
}

func (t token) usable(now time.Time) bool {
	return (t.text != "" || t.refused != nil) && (t.renew.IsZero() || now.Before(t.renew))
}

// loginRequest requests a token with the name and secret of fly, which are public and equal
// everywhere. fly is the client that may log in with a password (skymarshal).
func (c *Client) loginRequest(ctx context.Context) (*http.Request, error) {
	form := url.Values{"grant_type": {"password"}, "username": {c.Credentials.Username},
		"password": {c.Credentials.Password}, "scope": {"openid profile email federated:id groups"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		strings.TrimRight(c.Credentials.URL, "/")+"/sky/issuer/token", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth("fly", "Zmx5")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	return req, nil
}

// login ensures that there is a valid token for r.
func (c *Client) login(ctx context.Context, r Request) error {
	switch usable := c.token.usable(c.now()); {
	case usable && c.token.refused != nil:
		return c.token.refused
	case usable:
		return nil
	}
	c.token = token{}
	req, err := c.loginRequest(ctx)
	if err != nil {
		return c.unreachable(r, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(r, err)
	}
	defer discard(resp.Body)
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusBadRequest: // they concern the user
		err := c.fail(r, Login, resp.StatusCode, "rejects the password of user "+c.Credentials.Username)
		c.token = token{refused: err, renew: c.now().Add(RefusedPause)}
		return err
	default: // may be temporary; the body may repeat the password
		return c.refusal(r, Login, resp, "it gave no token")
	}
	var answer tokenAnswer
	if err := c.decode(r, resp.Body, &answer); err != nil {
		return err
	}
	if !answer.valid() {
		return c.senseless(r, "it has no token")
	}
	c.token = token{text: answer.Token}
	if life := answer.life(); life > 0 {
		c.token.renew = c.now().Add(life - min(life/10, renewBefore))
	}
	return nil
}

// tokenAnswer decodes the answer to a login.
type tokenAnswer struct {
	Token   string  `json:"access_token"`
	Type    string  `json:"token_type"`
	Expires float64 `json:"expires_in"` // seconds
}

// valid reports whether the token fits into a header and is for one.
func (a tokenAnswer) valid() bool {
	unfit := func(r rune) bool { return r <= ' ' || r > '~' }
	return a.Token != "" && !strings.ContainsFunc(a.Token, unfit) &&
		(a.Type == "" || strings.EqualFold(a.Type, "bearer"))
}

// life returns the bounded life of the token, 0 if it is not given.
func (a tokenAnswer) life() time.Duration {
	return time.Duration(max(0, min(a.Expires, maxLife.Seconds())) * float64(time.Second))
}
