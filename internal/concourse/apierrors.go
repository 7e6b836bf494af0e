package concourse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
)

// apiError is an answer of the web that is none of success.
type apiError struct {
	What   string // "prune worker a"
	Status int    // of HTTP
	Text   string // what the web says, one line; may be empty
}

func (e *apiError) Error() string {
	s := fmt.Sprintf("cannot %s: the web says %d %s", e.What, e.Status, http.StatusText(e.Status))
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Temporary says whether another try can help.
func (e *apiError) Temporary() bool {
	return e.Status >= 500 || e.Status == http.StatusTooManyRequests
}

// LoginError is a user name and password that the web does not take.
type LoginError struct{ What, User string }

func (e *LoginError) Error() string {
	return fmt.Sprintf("cannot %s: the web does not take the password of user %s", e.What, e.User)
}

// Remedy says what the operator can do: a running web has the password that
// it was started with.
func (e *LoginError) Remedy() string {
	return e.Error() + "; when it was just changed run: juju run <unit> restart-services"
}

// webDownError is a web that does not answer.
type webDownError struct {
	What string
	URL  string
	Err  error
}

func (e *webDownError) Error() string {
	why := e.Err
	// The inner error without the request's own address, which says no more.
	var inner *url.Error
	if errors.As(why, &inner) {
		why = inner.Err
	}
	var timeout net.Error
	if errors.Is(why, context.DeadlineExceeded) || errors.As(why, &timeout) && timeout.Timeout() {
		return fmt.Sprintf("cannot %s: the web at %s does not answer in time", e.What, e.URL)
	}
	return fmt.Sprintf("cannot %s: the web at %s does not answer: %s", e.What, e.URL, oneLine(why.Error()))
}

func (e *webDownError) Unwrap() error { return e.Err }

// Temporary says that another try can help: it may be starting.
func (e *webDownError) Temporary() bool { return true }

// Remedy says what the operator can do when it stays so.
func (e *webDownError) Remedy() string {
	return e.Error() + "; on the unit see: journalctl --unit concourse-server"
}
