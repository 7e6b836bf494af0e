package concourse

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/webclient"
)

// API calls the HTTP API of a web as one of its local users. It is for one goroutine.
type API struct{ *webclient.Client }

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

// NewAPI returns the API of the web at url ("http://127.0.0.1:8080") for a local user. It
// sends no request.
func NewAPI(url, user, password string) *API {
	c := login.Credentials{URL: url, Username: user, Password: password}
	return &API{webclient.New(c, nil, time.Now)}
}

// Workers lists the workers that the user may see. A user of the team main sees the workers
// of all teams. The web's list follows its database with a delay, so it may include a
// worker that was just pruned.
func (a *API) Workers(ctx context.Context) ([]WorkerInfo, error) {
	var workers []WorkerInfo
	err := a.call(ctx, webclient.Request{What: "list the workers", Path: "/api/v1/workers"}, &workers)
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
// volumes. A worker that is not listed is not an error. A running worker is an error with
// status 400.
func (a *API) Prune(ctx context.Context, name string) error {
	err := a.call(ctx, change("prune worker "+name, workerPath(name)+"/prune"), nil)
	if answer, ok := errors.AsType[*webclient.CallError](err); ok && answer.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// Land makes a worker finish its builds and take no new work. The worker stays listed, and
// takes work again after a restart. From 8.3 the web requires the worker's team, as it
// lists it; earlier webs read no body.
func (a *API) Land(ctx context.Context, w WorkerInfo) error {
	r := change("land worker "+w.Name, workerPath(w.Name)+"/land")
	r.Body = map[string]string{"name": w.Name, "team": w.Team}
	return a.call(ctx, r, nil)
}

// change returns a request that changes something, without a body.
func change(what, path string) webclient.Request {
	return webclient.Request{What: what, Method: http.MethodPut, Path: path}
}

func workerPath(name string) string { return "/api/v1/workers/" + url.PathEscape(name) }

// callTimeout bounds one call.
const callTimeout = 30 * time.Second

// call sends one request. An error that the operator can fix has a Remedy.
func (a *API) call(ctx context.Context, r webclient.Request, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := a.Call(ctx, r, into)
	switch e, ok := errors.AsType[*webclient.CallError](err); {
	case ok && e.Rejected():
		return &LoginError{e}
	case ok && e.Kind == webclient.Unreachable:
		return &webDownError{e}
	}
	return err
}

// LoginError reports a user name and password that the web rejects.
type LoginError struct{ *webclient.CallError }

// Remedy returns the cause with the command that helps: a running web has the password that
// it was started with.
func (e *LoginError) Remedy(c wellknown.Commands) status.Cause {
	return status.Block("%s", e).Fix("if it was just changed, run: " +
		c.RunAction("restart-services"))
}

// webDownError reports a web that does not answer.
type webDownError struct{ *webclient.CallError }

// Remedy returns the cause with the command that helps if it persists.
func (e *webDownError) Remedy(wellknown.Commands) status.Cause {
	return status.Block("%s", e).Fix("on the unit run: journalctl --unit concourse-server")
}

// HoldBuilds stops all webs of the database from starting builds of jobs. It pauses their
// component "scheduler", which stays paused over a restart. Running builds continue.
// One-off builds (fly execute) start anyway.
func (a *API) HoldBuilds(ctx context.Context) error {
	return a.call(ctx, change("hold builds", scheduler+"pause"), nil)
}

// ResumeBuilds ends HoldBuilds.
func (a *API) ResumeBuilds(ctx context.Context) error {
	return a.call(ctx, change("let builds start again", scheduler+"unpause"), nil)
}

const scheduler = "/api/v1/components/scheduler/"

// RunningBuilds counts the running builds among the newest 500, without checks.
func (a *API) RunningBuilds(ctx context.Context) (n int, err error) {
	var builds []struct {
		Status string `json:"status"`
	}
	err = a.call(ctx, webclient.Request{What: "list the builds", Path: "/api/v1/builds?limit=500"}, &builds)
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
