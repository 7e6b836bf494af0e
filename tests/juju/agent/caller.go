package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/juju/names/v5"
	"gopkg.in/httprequest.v1"

	"github.com/juju/juju/api/base"
	"github.com/juju/juju/core/leadership"
	"github.com/juju/juju/rpc/params"
)

var errNone = errors.New("not part of this controller")

// caller is the unit agent's connection to the controller.
type caller struct{ *Unit }

func (caller) BestFacadeVersion(facade string) int {
	return map[string]int{"Uniter": 20, "SecretsManager": 4, "ResourcesHookContext": 1}[facade]
}
func (c caller) ModelTag() (names.ModelTag, bool)                    { return names.NewModelTag(c.model.uuid), true }
func (caller) RootHTTPClient() (*httprequest.Client, error)          { return nil, errNone }
func (caller) BakeryClient() base.MacaroonDischarger                 { return nil }
func (caller) Context() context.Context                              { return context.Background() }
func (caller) ConnectStream(string, url.Values) (base.Stream, error) { return nil, errNone }
func (caller) ConnectControllerStream(string, url.Values, http.Header) (base.Stream, error) {
	return nil, errNone
}

// APICall is the wire: both directions go through JSON.
func (c caller) APICall(facade string, _ int, _, request string, args, response any) error {
	in, err := json.Marshal(args)
	if err != nil {
		return err
	}
	c.model.mu.Lock()
	out, err := c.answer(facade+"."+request, in)
	var data []byte
	if err == nil {
		data, err = json.Marshal(out)
	}
	c.model.mu.Unlock()
	if err != nil || response == nil {
		return err
	}
	return json.Unmarshal(data, response)
}

// HTTPClient downloads resources.
func (c caller) HTTPClient() (*httprequest.Client, error) {
	return &httprequest.Client{BaseURL: "https://controller", Doer: downloads{c.Unit}, UnmarshalError: func(r *http.Response) error {
		var e params.ErrorResult
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			return err
		}
		return e.Error
	}}, nil
}

type downloads struct{ *Unit }

func (d downloads) Do(r *http.Request) (*http.Response, error) {
	out := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	name := path.Base(r.URL.Path)
	file, err := os.Open(d.app.Resources[name])
	if err != nil {
		out.StatusCode = http.StatusNotFound
		out.Header.Set("Content-Type", "application/json")
		text, _ := json.Marshal(params.ErrorResult{Error: &params.Error{Code: params.CodeNotFound, Message: "resource#" + d.app.Name + "/" + name + " not found"}})
		out.Body = io.NopCloser(strings.NewReader(string(text)))
		return out, nil
	}
	out.Header.Set("Content-Type", "application/octet-stream")
	out.Body = file
	return out, nil
}

// tracker answers claims of leadership.
type tracker struct{ *Unit }

type ticket bool

func (t ticket) Wait() bool { return bool(t) }
func (t ticket) Ready() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
func (t tracker) ApplicationName() string        { return t.app.Name }
func (tracker) ClaimDuration() time.Duration     { return time.Minute }
func (t tracker) ClaimLeader() leadership.Ticket { return ticket(t.leading()) }
func (t tracker) WaitLeader() leadership.Ticket  { return ticket(t.leading()) }
func (t tracker) WaitMinion() leadership.Ticket  { return ticket(!t.leading()) }

func (u *Unit) leading() bool {
	u.model.mu.Lock()
	defer u.model.mu.Unlock()
	return u.leads()
}
