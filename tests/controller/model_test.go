//go:build controller

package controller

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// model is what `juju status` says of one.
type model struct {
	Applications map[string]struct {
		Units map[string]unit
	}
}

type unit struct {
	Workload struct{ Current, Message string } `json:"workload-status"`
}

// says is its status as one line.
func (u unit) says() string { return u.Workload.Current + ": " + u.Workload.Message }

func (s *site) model(name string) (m model) {
	s.T.Helper()
	require.NoError(s.T, json.Unmarshal([]byte(s.juju("status", "--model", name, "--format=json")), &m))
	return m
}

// text is the model's units with their statuses, a line each.
func (m model) text() string {
	var b strings.Builder
	for _, app := range slices.Sorted(maps.Keys(m.Applications)) {
		for _, name := range slices.Sorted(maps.Keys(m.Applications[app].Units)) {
			fmt.Fprintf(&b, "%s %s\n", name, m.Applications[app].Units[name].says())
		}
	}
	return b.String()
}

// eventually waits until the model is as it has to be.
func (s *site) eventually(name, what string, is func(model) bool) model {
	s.T.Helper()
	start, last := time.Now(), ""
	for {
		m := s.model(name)
		if now := m.text(); now != last {
			fmt.Printf("%6.1f s  %s\n", time.Since(start).Seconds(), strings.ReplaceAll(strings.TrimSpace(now), "\n", "\n          "))
			last = now
		}
		if is(m) {
			takes(what, start)
			return m
		}
		if time.Since(start) > unitPatience {
			log, _ := s.try("debug-log", "--model", name, "--replay", "--no-tail", "--limit=60", "--level=WARNING")
			require.Fail(s.T, what, "not so within %s:\n%s%s", unitPatience, last, log)
		}
		time.Sleep(2 * time.Second)
	}
}

// comesTo waits until one unit says something.
func (s *site) comesTo(name, unit, text string) {
	s.T.Helper()
	app, _, _ := strings.Cut(unit, "/")
	s.eventually(name, unit+" says: "+text, func(m model) bool {
		return strings.Contains(m.Applications[app].Units[unit].says(), text)
	})
}
