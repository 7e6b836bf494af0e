package concourse

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// fakeWeb answers as Concourse 8.3 does, as far as the API client goes.
type fakeWeb struct {
	*httptest.Server
	mu      sync.Mutex
	workers map[string]string // name: state
	team    string            // of the workers
	token   string            // the one that holds now
	logins  int
	asked   []string // "METHOD path"
}

const fakePassword = "hunter2&+ %"

func newFakeWeb(t testing.TB) *fakeWeb {
	w := &fakeWeb{workers: map[string]string{"a": "running", "b": "stalled", "weird/name": "stalled"}}
	w.Server = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.Close)
	return w
}

func (w *fakeWeb) serve(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, r.Method+" "+r.URL.EscapedPath())
	say := func(status int, text string) {
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(status)
		fmt.Fprint(out, text)
	}
	switch {
	case r.URL.Path == "/api/v1/info":
		say(200, `{"version":"8.3.0","worker_version":"3.0","feature_flags":{},"external_url":"http://ci","cluster_name":"lab"}`)
		return
	case r.URL.Path == "/sky/issuer/token":
		client, secret, _ := r.BasicAuth()
		if r.Method != http.MethodPost || client != "fly" || secret != "Zmx5" || r.PostFormValue("grant_type") != "password" ||
			!strings.Contains(r.PostFormValue("scope"), "openid") {
			say(401, `{"error":"invalid_client"}`)
			return
		}
		if r.PostFormValue("username") != "admin" || r.PostFormValue("password") != fakePassword {
			say(401, `{"error":"access_denied","error_description":"Invalid username or password"}`)
			return
		}
		w.logins++
		w.token = fmt.Sprintf("token-%d", w.logins)
		say(200, `{"access_token":"`+w.token+`","token_type":"bearer","expires_in":86399,"id_token":"x"}`)
		return
	}
	if w.token == "" || r.Header.Get("Authorization") != "Bearer "+w.token {
		out.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(out, "not authorized")
		return
	}
	if r.Method == http.MethodGet && r.URL.Path == "/api/v1/workers" {
		list := []map[string]any{}
		for name, state := range w.workers {
			list = append(list, map[string]any{"name": name, "state": state, "tags": []string{"gpu"}, "version": "3.0", "platform": "linux",
				"active_containers": 3, "active_tasks": 1, "start_time": 1795267341, "addr": "127.0.0.1:1", "team": w.team})
		}
		data, _ := json.Marshal(list)
		say(200, string(data))
		return
	}
	name, verb, ok := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/api/v1/workers/"), "/")
	name = strings.ReplaceAll(name, "%2F", "/")
	state, there := w.workers[name]
	switch {
	case r.Method != http.MethodPut || !ok || !there:
		out.WriteHeader(http.StatusNotFound)
	case verb == "prune" && state == "running":
		say(400, `{"stderr":"cannot prune running worker"}`)
	case verb == "prune":
		delete(w.workers, name)
	case verb == "land":
		var given struct{ Team string }
		if json.NewDecoder(r.Body).Decode(&given) != nil || given.Team != w.team {
			out.WriteHeader(http.StatusBadRequest)
			return
		}
		w.workers[name] = "landing"
	default:
		out.WriteHeader(http.StatusNotFound)
	}
}
