// Package atctest plays the part of Concourse's web that a job exporter uses: logins and
// the lists of teams, pipelines, jobs, containers, workers and builds. It has the codes, headers
// and fields of Concourse 8.2.5. It never runs a build.
package atctest

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Paths of the API.
const (
	Token     = "/sky/issuer/token"
	Teams     = "/api/v1/teams"
	Pipelines = "/api/v1/pipelines"
	Jobs      = "/api/v1/jobs"
	Workers   = "/api/v1/workers"

	ContainersOfMain = Teams + "/main/containers"
)

// Server simulates a web. Change it only in Set.
type Server struct {
	*httptest.Server
	mu sync.Mutex

	Users   map[string]string           // passwords by name
	Life    time.Duration               // claimed life of a token
	Answers map[string]string           // bodies by path
	Handle  map[string]http.HandlerFunc // replaces the handler of a path
	Logins  int                         // number of requested tokens
	Asked   []string                    // "METHOD path", in order
	tokens  map[string]bool

	AllBuilds []Build // in any order
}

// New serves http on a free port of 127.0.0.1 until the test ends. The user is admin with
// the password "s3 cr&t", and the lists are empty except for one team.
func New(t testing.TB) *Server { return start(t, (*httptest.Server).Start) }

// NewTLS serves https.
func NewTLS(t testing.TB) *Server { return start(t, (*httptest.Server).StartTLS) }

func start(t testing.TB, how func(*httptest.Server)) *Server {
	s := &Server{
		Users: map[string]string{"admin": "s3 cr&t"}, Life: 24 * time.Hour,
		Answers: map[string]string{Teams: `[{"id":1,"name":"main","auth":{"owner":{"groups":[],"users":["local:admin"]}}}]`, Pipelines: "[]", Jobs: "[]", Workers: "[]"},
		Handle:  map[string]http.HandlerFunc{}, tokens: map[string]bool{},
	}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = nil
	how(s.Server)
	t.Cleanup(s.Close)
	return s
}

// Set changes the server between requests.
func (s *Server) Set(change func(*Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// Revoke invalidates all tokens, as a new signing key or a lost database does. Call it in
// Set.
func (s *Server) Revoke() { s.tokens = map[string]bool{} }

// Seen returns the requests so far.
func (s *Server) Seen() (asked []string, logins int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.Asked...), s.Logins
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.Asked = append(s.Asked, r.Method+" "+r.URL.Path)
	h := s.Handle[r.URL.Path]
	s.mu.Unlock()
	switch {
	case h != nil:
		h(w, r)
	case r.URL.Path == Token:
		s.login(w, r)
	case r.URL.Path == Builds || strings.HasPrefix(r.URL.Path, Builds+"/"):
		s.answerBuilds(w, r)
	default:
		s.list(w, r)
	}
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	client, secret, _ := r.BasicAuth()
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case client != "fly" || secret != "Zmx5":
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"error":"invalid_client","error_description":"Invalid client credentials."}`)
		return
	case r.FormValue("grant_type") != "password" || !strings.Contains(" "+r.FormValue("scope")+" ", " openid "):
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":"invalid_request"}`)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Logins++
	if password, known := s.Users[r.FormValue("username")]; !known || password != r.FormValue("password") {
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"error":"access_denied","error_description":"Invalid username or password"}`)
		return
	}
	token := fmt.Sprintf("amdVVd6LQDD0k0MmBUYkd/1/3tYL7AJr%06d", s.Logins)
	s.tokens[token] = true
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","expires_in":%d,"id_token":"a.b.c"}`, token,
		int(s.Life.Seconds()))
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	body, known := s.Answers[r.URL.Path]
	if !known && strings.HasPrefix(r.URL.Path, Teams+"/") && strings.HasSuffix(r.URL.Path, "/containers") {
		body, known = "[]", true
	}
	token, sent := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	good := s.tokens[token]
	s.mu.Unlock()
	switch {
	case !known:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method != http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case !sent:
		body = "[]" // public objects
	case !good:
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, "not authorized")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		io.WriteString(w, body)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	io.WriteString(z, body)
	z.Close()
}
