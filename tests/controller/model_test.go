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

// model is what `juju status` reports of one.
type model struct {
	Applications map[string]struct {
		Units map[string]unit
	}
	Machines map[string]struct {
		Instance string `json:"instance-id"`
	}
}

type unit struct {
	Workload struct{ Current, Message string } `json:"workload-status"`
	Agent    struct{ Current, Message string } `json:"juju-status"`
	Leader   bool
	Machine  string
	Address  string `json:"public-address"`
}

// leader is the name of the unit that leads, "" if none does.
func (m model) leader(app string) string {
	for name, u := range m.Applications[app].Units {
		if u.Leader {
			return name
		}
	}
	return ""
}

// units are the application's, in their order.
func (m model) units(app string) []string {
	return slices.Sorted(maps.Keys(m.Applications[app].Units))
}

func (m model) unit(name string) unit {
	app, _, _ := strings.Cut(name, "/")
	return m.Applications[app].Units[name]
}

// container is the container of the unit's machine.
func (m model) container(unit string) string { return m.Machines[m.unit(unit).Machine].Instance }

// statusLine returns its status as one line.
func (u unit) statusLine() string { return u.Workload.Current + ": " + u.Workload.Message }

func (s *site) model(name string) (m model) {
	s.T.Helper()
	require.NoError(s.T, json.Unmarshal([]byte(s.juju("status", "--model", name, "--format=json")), &m))
	return m
}

// text is the model's units with their statuses, a line each.
func (m model) text() string {
	var b strings.Builder
	for _, app := range slices.Sorted(maps.Keys(m.Applications)) {
		for _, name := range m.units(app) {
			leads := map[bool]string{true: "*"}[m.unit(name).Leader]
			fmt.Fprintf(&b, "%s%s %s\n", name, leads, m.unit(name).statusLine())
		}
	}
	return b.String()
}

// eventually waits until the model is as it must be.
func (s *site) eventually(name, what string, is func(model) bool) model {
	s.T.Helper()
	start, last := time.Now(), ""
	for {
		m := s.model(name)
		if now := m.text(); now != last {
			fmt.Printf("%6.1f s  %s\n", time.Since(start).Seconds(), strings.ReplaceAll(strings.TrimSpace(now), "\n", "\n          "))
			last = now
			if strings.Contains(now, " error: hook failed") {
				fmt.Println(s.warnings(name))
			}
		}
		if is(m) {
			takes(what, start)
			return m
		}
		if time.Since(start) > unitPatience {
			require.Fail(s.T, what, "not so within %s:\n%s%s", unitPatience, last, s.warnings(name))
		}
		time.Sleep(2 * time.Second)
	}
}

// warnings are the last that the model's agents logged, or why there are none.
func (s *site) warnings(name string) string {
	log, err := s.try("debug-log", "--model", name, "--replay", "--no-tail", "--limit=60", "--level=WARNING")
	if err != nil {
		return err.Error()
	}
	return log
}

// comesTo waits until one unit has a status.
func (s *site) comesTo(name, unit, text string) {
	s.T.Helper()
	s.eventually(name, unit+" has the status "+text, func(m model) bool { return strings.Contains(m.unit(unit).statusLine(), text) })
}

// until waits for what is not the model's. It asks in the test's own goroutine.
func (s *site) until(what string, is func() bool) {
	s.T.Helper()
	start := time.Now()
	for !is() {
		require.Less(s.T, time.Since(start), unitPatience, what)
		time.Sleep(time.Second)
	}
	takes(what, start)
}
