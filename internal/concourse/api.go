package concourse

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flylogin"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
)

// API calls Concourse's HTTP API as a local user of the web. It logs in before the first
// request and keeps the token in memory only. An API is for one goroutine.
type API struct {
	base, user, password string
	caFile               string
	token                string
	client               *http.Client
}

// WorkerInfo describes a worker as the web lists it.
type WorkerInfo struct {
	Name             string   `json:"name"`
	Address          string   `json:"addr"`  // host:port at the web with its registration
	State            string   `json:"state"` // running, stalled, landing, landed, retiring
	Team             string   `json:"team"`
	Tags             []string `json:"tags"`
	Platform         string   `json:"platform"`
	Version          string   `json:"version"` // of the worker protocol: 2.5 up to Concourse 8.2, 3.0 from 8.3
	ActiveContainers int      `json:"active_containers"`
	ActiveTasks      int      `json:"active_tasks"`
	StartTime        int64    `json:"start_time"` // seconds since 1970
	Ephemeral        bool     `json:"ephemeral"`
}

// maxAnswer leaves room for more than 10000 workers.
const maxAnswer = 16 << 20

// NewAPI returns the API of the web at base ("http://127.0.0.1:8080") for a local user.
// With caFile, the web's certificate must be signed by an authority in that file. Without
// caFile, an authority that the machine trusts must have signed it. NewAPI sends no
// request.
func NewAPI(base, user, password, caFile string) *API {
	return &API{base: strings.TrimSuffix(base, "/"), user: user, password: password, caFile: caFile}
}

// Workers lists the workers that the user may see. A user of the team main sees the workers
// of all teams. The web's list follows its database with a delay, so it may include a
// worker that was just pruned.
func (a *API) Workers(ctx context.Context) ([]WorkerInfo, error) {
	var workers []WorkerInfo
	err := a.call(ctx, "list the workers", http.MethodGet, "/api/v1/workers", nil, &workers)
	return workers, err
}

// Remove removes a worker that cannot register again from the list. It is landed first,
// because a worker that lost its connection is listed as running for a while.
func (a *API) Remove(ctx context.Context, name string) error {
	workers, err := a.Workers(ctx)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if w.Name == name {
			return a.RemoveListed(ctx, w)
		}
	}
	return nil
}

// RemoveListed works like Remove for a worker of a list that was just read.
func (a *API) RemoveListed(ctx context.Context, w WorkerInfo) error {
	if w.State == "running" {
		if err := a.Land(ctx, w); err != nil {
			return err
		}
	}
	return a.Prune(ctx, w.Name)
}

// Prune removes a worker that is not running, with the web's records of its containers and
// volumes. A worker that is not listed is not an error. A running worker is an *apiError
// with status 400.
func (a *API) Prune(ctx context.Context, name string) error {
	err := a.call(ctx, "prune worker "+name, http.MethodPut, "/api/v1/workers/"+url.PathEscape(name)+"/prune", nil, nil)
	if answer, ok := errors.AsType[*apiError](err); ok && answer.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// Land makes a worker finish its builds and take no new work. The worker stays listed, and
// takes work again after a restart. From 8.3 the web requires the worker's team, as it
// lists it; earlier webs read no body.
func (a *API) Land(ctx context.Context, w WorkerInfo) error {
	body, err := json.Marshal(map[string]string{"name": w.Name, "team": w.Team})
	if err != nil {
		return err
	}
	return a.call(ctx, "land worker "+w.Name, http.MethodPut, "/api/v1/workers/"+url.PathEscape(w.Name)+"/land",
		body, nil)
}

// call sends one request. It replaces an expired token once.
func (a *API) call(ctx context.Context, what, method, path string, send []byte, into any) error {
	retry := a.token != "" // a token from this call needs no second try
	status, body, err := a.request(ctx, what, method, path, send)
	if err == nil && retry && status == http.StatusUnauthorized {
		a.token = ""
		status, body, err = a.request(ctx, what, method, path, send)
	}
	if err != nil {
		return err
	}
	if status/100 != 2 {
		return &apiError{What: what, Status: status, Text: answerText(body)}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &apiError{What: what, Status: status, Text: "what answers is not Concourse"}
	}
	return nil
}

func (a *API) request(ctx context.Context, what, method, path string, send []byte) (int, []byte, error) {
	if a.token == "" {
		if err := a.login(ctx, what); err != nil {
			return 0, nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(send))
	if err != nil {
		return 0, nil, &webDownError{What: what, URL: a.base, Err: err}
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	return a.do(what, req)
}

// login requests a token with the password, as fly does.
func (a *API) login(ctx context.Context, what string) error {
	req, err := flylogin.Request(ctx, a.base, a.user, a.password)
	if err != nil {
		return &webDownError{What: what, URL: a.base, Err: err}
	}
	status, body, err := a.do(what, req)
	if err != nil {
		return err
	}
	var answer struct {
		Token string `json:"access_token"`
		Error string `json:"error"`
	}
	_ = json.Unmarshal(body, &answer) // an answer that is not JSON has no token
	switch {
	case status == http.StatusOK && answer.Token != "":
		a.token = answer.Token
		return nil
	case status == http.StatusUnauthorized && answer.Error == "access_denied":
		return &LoginError{What: what, User: a.user}
	}
	return &apiError{What: what, Status: status, Text: "it gave no token"}
}

func (a *API) do(what string, req *http.Request) (int, []byte, error) {
	client, err := a.http()
	if err != nil {
		return 0, nil, fmt.Errorf("cannot %s: %w", what, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, &webDownError{What: what, URL: a.base, Err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return 0, nil, &webDownError{What: what, URL: a.base, Err: err}
	}
	if len(body) > maxAnswer {
		return 0, nil, &apiError{What: what, Status: resp.StatusCode,
			Text: fmt.Sprintf("the answer is longer than %d MiB", maxAnswer>>20)}
	}
	return resp.StatusCode, body, nil
}

// http creates the client once. The client uses no proxy, because the web is on this
// machine.
func (a *API) http() (*http.Client, error) {
	if a.client != nil {
		return a.client, nil
	}
	transport := &http.Transport{DisableKeepAlives: true}
	if a.caFile != "" {
		pem, err := os.ReadFile(a.caFile)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", a.caFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	a.client = &http.Client{Transport: transport, Timeout: 30 * time.Second, CheckRedirect: flylogin.Stay}
	return a.client, nil
}

// answerText returns the reason in an answer that reports a failure: {"stderr":...} or
// plain text.
func answerText(body []byte) string {
	var answer struct {
		Stderr string `json:"stderr"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.Stderr != "" {
		return oneLine(answer.Stderr)
	}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
		return "" // an HTML page for people
	}
	return oneLine(string(body[:min(len(body), 1000)]))
}

// apiError reports an answer of the web other than success.
type apiError struct {
	What   string // "prune worker a"
	Status int    // of HTTP
	Text   string // the web's message, one line; may be empty
}

func (e *apiError) Error() string {
	s := fmt.Sprintf("cannot %s: the web says %d %s", e.What, e.Status, http.StatusText(e.Status))
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Temporary reports whether another try can help.
func (e *apiError) Temporary() bool {
	return e.Status >= 500 || e.Status == http.StatusTooManyRequests
}

// LoginError reports a user name and password that the web rejects.
type LoginError struct{ What, User string }

func (e *LoginError) Error() string {
	return fmt.Sprintf("cannot %s: the web does not take the password of user %s", e.What, e.User)
}

// Remedy returns the cause with the command that helps: a running web has the password that
// it was started with.
func (e *LoginError) Remedy(c wellknown.Commands) status.Cause {
	return status.Block("%s", e).Fix("if it was just changed, run: " +
		c.RunAction("restart-services"))
}

// webDownError reports a web that does not answer.
type webDownError struct {
	What string
	URL  string
	Err  error
}

func (e *webDownError) Error() string {
	why := e.Err
	// The outer error repeats the request's address, which the message has already.
	if inner, ok := errors.AsType[*url.Error](why); ok {
		why = inner.Err
	}
	var timeout net.Error
	if errors.Is(why, context.DeadlineExceeded) || errors.As(why, &timeout) && timeout.Timeout() {
		return fmt.Sprintf("cannot %s: the web at %s does not answer in time", e.What, e.URL)
	}
	return fmt.Sprintf("cannot %s: the web at %s does not answer: %s", e.What, e.URL, oneLine(why.Error()))
}

func (e *webDownError) Unwrap() error { return e.Err }

// Temporary returns true, because the web may be starting.
func (e *webDownError) Temporary() bool { return true }

// Remedy returns the cause with the command that helps if it persists.
func (e *webDownError) Remedy(wellknown.Commands) status.Cause {
	return status.Block("%s", e).Fix("on the unit run: journalctl --unit concourse-server")
}

// HoldBuilds stops all webs of the database from starting builds of jobs. It pauses their
// component "scheduler", which stays paused over a restart. Running builds continue.
// One-off builds (fly execute) start anyway.
func (a *API) HoldBuilds(ctx context.Context) error {
	return a.call(ctx, "hold builds", http.MethodPut, scheduler+"pause", nil, nil)
}

// ResumeBuilds ends HoldBuilds.
func (a *API) ResumeBuilds(ctx context.Context) error {
	return a.call(ctx, "let builds start again", http.MethodPut, scheduler+"unpause", nil, nil)
}

const scheduler = "/api/v1/components/scheduler/"

// RunningBuilds counts the running builds among the newest 500, without checks.
func (a *API) RunningBuilds(ctx context.Context) (n int, err error) {
	var builds []struct {
		Status string `json:"status"`
	}
	err = a.call(ctx, "list the builds", http.MethodGet, "/api/v1/builds?limit=500", nil, &builds)
	for _, b := range builds {
		if b.Status == "started" {
			n++
		}
	}
	return n, err
}

// WebVersion requests the version of the web at url, with a deadline of 5 seconds. It
// follows no redirection. It returns "" if no web answers with a version.
func WebVersion(ctx context.Context, url string) string {
	status, body, err := ask(ctx, strings.TrimSuffix(url, "/")+"/api/v1/info")
	var info struct{ Version string }
	if err != nil || status != http.StatusOK || json.Unmarshal(body, &info) != nil ||
		release.CheckVersion(info.Version) != nil {
		return ""
	}
	return info.Version
}
