package jobexporter

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"concourse-ci-machine/internal/concourse/flylogin"
)

const (
	// renewBefore is how long before its end a token is replaced, at most; of a
	// short one it is a tenth.
	renewBefore = 5 * time.Minute
	// maxLife bounds what a token says of its own life.
	maxLife = 30 * 24 * time.Hour
	// refusedPause is how long refused credentials are not tried again: each try
	// costs the web a slow hash, and may lock an account of a directory.
	refusedPause = 5 * time.Minute
)

// token is what a login gave. The zero token is none.
type token struct {
	text    string
	renew   time.Time // zero: never
	refused error     // the login was refused; not tried again before renew
}

func (t token) usable(now time.Time) bool {
	return (t.text != "" || t.refused != nil) && (t.renew.IsZero() || now.Before(t.renew))
}

// login makes sure that there is a token.
func (c *client) login(ctx context.Context) error {
	if c.token.usable(c.now()) {
		return c.token.refused
	}
	c.token = token{}
	req, err := flylogin.Request(ctx, c.credentials.URL, c.credentials.Username, c.credentials.Password)
	if err != nil {
		return fail(resultCredentials, "cannot ask %s: %w", c.credentials.URL, plainly(err))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fail(resultUnreachable, "cannot reach %s: %w", c.credentials.URL, plainly(err))
	}
	defer discard(resp)
	if resp.StatusCode != http.StatusOK {
		err := fail(kindOf(resp, resultLogin), "cannot log in as %s: %s answers %s", c.credentials.Username, c.credentials.URL, status(resp))
		// 400 and 401 are about the user; anything else may pass by itself.
		if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusBadRequest {
			c.token = token{refused: err, renew: c.now().Add(refusedPause)}
		}
		return err
	}
	text, life, err := decodeToken(&bounded{resp.Body, maxToken})
	if err != nil {
		kind := resultAnswer
		if ctx.Err() != nil || isNetwork(err) {
			kind = resultUnreachable
		}
		return fail(kind, "cannot log in as %s at %s: %w", c.credentials.Username, c.credentials.URL, plainly(err))
	}
	c.token = token{text: text}
	if life > 0 {
		c.token.renew = c.now().Add(life - min(life/10, renewBefore))
	}
	return nil
}

// decodeToken reads the answer to a login; life is 0 where it says nothing of it.
func decodeToken(r io.Reader) (text string, life time.Duration, err error) {
	var answer struct {
		Token   string  `json:"access_token"`
		Type    string  `json:"token_type"`
		Expires float64 `json:"expires_in"`
	}
	if err := json.NewDecoder(r).Decode(&answer); err != nil {
		return "", 0, decodeError(err)
	}
	if answer.Token == "" || clip(answer.Token, len(answer.Token)) != answer.Token || strings.Contains(answer.Token, " ") {
		return "", 0, errors.New("the answer has no token")
	}
	if !strings.EqualFold(answer.Type, "bearer") {
		return "", 0, errors.New("the answer has a token of another kind than bearer")
	}
	if answer.Expires <= 0 {
		return answer.Token, 0, nil
	}
	return answer.Token, time.Duration(min(answer.Expires, maxLife.Seconds()) * float64(time.Second)), nil
}
