package atctest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Builds is the path of the list of builds.
const Builds = "/api/v1/builds"

// Build describes a build as Concourse answers it. Start and End are Unix seconds.
type Build struct {
	ID       int            `json:"id"`
	Name     string         `json:"name"`
	Status   string         `json:"status"`
	Team     string         `json:"team_name"`
	Pipeline string         `json:"pipeline_name,omitempty"`
	Vars     map[string]any `json:"pipeline_instance_vars,omitempty"`
	Job      string         `json:"job_name,omitempty"`
	Start    int64          `json:"start_time,omitempty"`
	End      int64          `json:"end_time,omitempty"`
	RerunOf  map[string]any `json:"rerun_of,omitempty"`

	Resources string   `json:"-"` // JSON of its inputs and outputs
	Plan      string   `json:"-"` // JSON of its public plan; "": it has none
	Events    []string `json:"-"` // JSON of its events, such as {"data":{},"event":"log","version":"5.1"}
}

// allowed reports whether a request has a valid token, and answers it otherwise.
func (s *Server) allowed(w http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !s.tokens[token] {
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, "not authorized")
	}
	return s.tokens[token]
}

// answerBuilds answers a path below Builds.
func (s *Server) answerBuilds(w http.ResponseWriter, r *http.Request) {
	if !s.allowed(w, r) {
		return
	}
	s.mu.Lock()
	all := slices.Clone(s.AllBuilds)
	s.mu.Unlock()
	id, what, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, Builds), "/"), "/")
	w.Header().Set("Content-Type", "application/json")
	if id == "" {
		json.NewEncoder(w).Encode(pageOf(all, r))
		return
	}
	i := slices.IndexFunc(all, func(b Build) bool { return strconv.Itoa(b.ID) == id })
	switch {
	case i < 0, what == "plan" && all[i].Plan == "":
		w.WriteHeader(http.StatusNotFound)
	case what == "":
		json.NewEncoder(w).Encode(all[i])
	case what == "resources":
		io.WriteString(w, all[i].Resources)
	case what == "plan":
		io.WriteString(w, all[i].Plan)
	case what == "events":
		stream(w, r, all[i].Events)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// pageOf returns the newest builds up to the number "to", newest first.
func pageOf(all []Build, r *http.Request) []Build {
	limit, err := strconv.Atoi(r.FormValue("limit"))
	if err != nil || limit <= 0 {
		limit = 100
	}
	to, err := strconv.Atoi(r.FormValue("to"))
	out := []Build{}
	slices.SortFunc(all, func(a, b Build) int { return b.ID - a.ID })
	for _, b := range all {
		if (err != nil || b.ID <= to) && len(out) < limit {
			out = append(out, b)
		}
	}
	return out
}

// stream sends events and the end, and then waits for the client to leave.
func stream(w http.ResponseWriter, r *http.Request, events []string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for i, e := range events {
		fmt.Fprintf(w, "id: %d\nevent: event\ndata: %s\n\n", i, e)
	}
	fmt.Fprintf(w, "id: %d\nevent: end\ndata\n\n", len(events))
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}
