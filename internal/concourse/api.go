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
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"concourse-ci-machine/internal/concourse/flylogin"
)

// API is Concourse's HTTP API as a local user of the web sees it. It logs in
// when it first has to and keeps the token in memory only. It is for one
// goroutine.
type API struct {
	base, user, password string
	caFile               string
	token                string
	client               *http.Client
}

// WorkerInfo is a worker as the web lists it.
type WorkerInfo struct {
	Name             string   `json:"name"`
	State            string   `json:"state"` // running, stalled, landing, landed, retiring
	Team             string   `json:"team"`
	Tags             []string `json:"tags"`
	Platform         string   `json:"platform"`
	Version          string   `json:"version"` // of the protocol: 2.5 to Concourse 8.2, 3.0 from 8.3
	ActiveContainers int      `json:"active_containers"`
	ActiveTasks      int      `json:"active_tasks"`
	StartTime        int64    `json:"start_time"` // seconds since 1970
	Ephemeral        bool     `json:"ephemeral"`
}

// maxAnswer is more than 10000 workers need.
const maxAnswer = 16 << 20

// NewAPI returns the API of the web at base ("http://127.0.0.1:8080") for a
// local user. With caFile the web's certificate has to be of one of its
// authorities, without it of one that the machine trusts. Nothing is asked yet.
func NewAPI(base, user, password, caFile string) *API {
	return &API{base: strings.TrimSuffix(base, "/"), user: user, password: password, caFile: caFile}
}

// Workers lists the workers that the user may see, those of all teams for a
// user of the team main. The web's list follows its database with a delay: a
// worker that was just pruned may be in it once more.
func (a *API) Workers(ctx context.Context) ([]WorkerInfo, error) {
	var workers []WorkerInfo
	err := a.call(ctx, "list the workers", http.MethodGet, "/api/v1/workers", nil, &workers)
	return workers, err
}

// Prune removes a worker that is not running from the list, with all that the
// web knows of its containers and volumes. One that is not in the list is
// no error; one that runs is an *apiError with status 400.
func (a *API) Prune(ctx context.Context, name string) error {
	err := a.call(ctx, "prune worker "+name, http.MethodPut, "/api/v1/workers/"+url.PathEscape(name)+"/prune", nil, nil)
	var answer *apiError
	if errors.As(err, &answer) && answer.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// Land makes a worker finish what it does and take no new work. It stays in
// the list, and takes work again once it is restarted. From 8.3 the web wants to be
// told the worker's team, as it lists it; before, it reads no body.
func (a *API) Land(ctx context.Context, w WorkerInfo) error {
	body, err := json.Marshal(map[string]string{"name": w.Name, "team": w.Team})
	if err != nil {
		return err
	}
	return a.call(ctx, "land worker "+w.Name, http.MethodPut, "/api/v1/workers/"+url.PathEscape(w.Name)+"/land", body, nil)
}

// call sends one request; a token that the web does not know any more is
// replaced once.
func (a *API) call(ctx context.Context, what, method, path string, send []byte, into any) error {
	again := a.token != "" // a token of this very call needs no second try
	status, body, err := a.request(ctx, what, method, path, send)
	if err == nil && again && status == http.StatusUnauthorized {
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

// login asks for a token by the password, as fly does.
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
	_ = json.Unmarshal(body, &answer) // an answer that is no JSON has no token
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
		return 0, nil, &apiError{What: what, Status: resp.StatusCode, Text: fmt.Sprintf("the answer is longer than %d MiB", maxAnswer>>20)}
	}
	return resp.StatusCode, body, nil
}

// http makes the client once. It uses no proxy: it is this machine.
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

// answerText is the reason in an answer that is none of success: {"stderr":...}
// or plain text.
func answerText(body []byte) string {
	var answer struct {
		Stderr string `json:"stderr"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.Stderr != "" {
		return oneLine(answer.Stderr)
	}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
		return "" // a page for people
	}
	return oneLine(string(body[:min(len(body), 1000)]))
}
