package webclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
)

// Kind classifies a failed call.
type Kind string

// The kinds.
const (
	Login   Kind = "login"   // the web refuses the user
	Refused Kind = "refused" // it refuses the request: 401 twice, 403, 3xx
	// Failing: it fails at the request or the login, 5xx: usually because its database is missing
	Failing     Kind = "failing"
	Unreachable Kind = "unreachable" // no answer, or not in time
	Answer      Kind = "answer"      // an answer that makes no sense
)

// CallError reports a failed call in one line, without a secret.
type CallError struct {
	Kind   Kind
	Status int    // of HTTP; 0 without an answer
	what   string // "list the workers"
	text   string // "the web at URL answers 403 Forbidden"
	cause  error  // of a web that does not answer
}

// Error implements error.
func (e *CallError) Error() string { return "cannot " + e.what + ": " + e.text }

// Unwrap returns the network's error.
func (e *CallError) Unwrap() error { return e.cause }

// Temporary reports whether another try can help: the web may be starting.
func (e *CallError) Temporary() bool {
	return e.Kind == Unreachable || e.Status >= 500 || e.Status == http.StatusTooManyRequests
}

// Rejected reports whether the web does not take the password.
func (e *CallError) Rejected() bool {
	return e.Kind == Login && (e.Status == http.StatusUnauthorized || e.Status == http.StatusBadRequest)
}

func (c *Client) fail(r Request, k Kind, status int, text string) *CallError {
	return &CallError{Kind: k, Status: status, what: r.what(), text: "the web at " + c.Credentials.URL + " " + text}
}

func (c *Client) unreachable(r Request, err error) *CallError {
	// The outer error repeats the request's address.
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	text := "does not answer"
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() {
		text += " in time"
	} else {
		text += ": " + oneLine(err.Error())
	}
	e := c.fail(r, Unreachable, 0, text)
	e.cause = err
	return e
}

// refusal returns the error of an answer without success, with the target of a redirect. A
// failure of the web itself has the kind Failing, and others k.
func (c *Client) refusal(r Request, k Kind, resp *http.Response, reason string) *CallError {
	if resp.StatusCode >= http.StatusInternalServerError {
		k = Failing
	}
	text := fmt.Sprintf("answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if to, err := resp.Location(); err == nil {
		text += " to " + sanitize.Line(to.Scheme+"://"+to.Host, 100) + "; use that URL"
	} else if reason != "" {
		text += ": " + reason
	}
	return c.fail(r, k, resp.StatusCode, text)
}

func (c *Client) senseless(r Request, why string) *CallError {
	return c.fail(r, Answer, http.StatusOK, "does not answer as Concourse does: "+why)
}

// reasonOf returns the reason in an answer that reports a failure: {"stderr":...} or plain
// text.
func reasonOf(r io.Reader) string {
	body, _ := io.ReadAll(io.LimitReader(r, 4<<10)) // a part is good enough
	var answer struct {
		Stderr string `json:"stderr"`
	}
	switch {
	case json.Unmarshal(body, &answer) == nil && answer.Stderr != "":
		return oneLine(answer.Stderr)
	case bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")):
		return "" // an HTML page for people
	}
	return oneLine(string(body))
}

// oneLine makes a text from outside fit for a status.
func oneLine(s string) string { return sanitize.Line(strings.Join(strings.Fields(s), " "), 200) }
