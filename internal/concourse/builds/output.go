package builds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/testreport"
)

// Bounds of the output of a task.
const (
	maxErrorLines = 5
	maxErrorLine  = 200     // characters
	maxPart       = 4 << 10 // bytes of a line that has not ended
	outputTimeout = 10 * time.Second
)

// Get requests a path of Concourse's API and returns the body.
type Get = func(ctx context.Context, path string) (io.ReadCloser, error)

// ErrorsOf returns the last lines that a failed task printed about an error, oldest first.
// handle names its container, which Concourse keeps for some time. Nothing is returned of a
// build with several failed tasks of that name.
func ErrorsOf(ctx context.Context, get Get, handle string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, outputTimeout)
	defer cancel()
	c, err := containerOf(ctx, get, handle)
	if err != nil {
		return nil, err
	}
	path := fmt.Sprintf("/api/v1/builds/%d/", c.Build)
	var plan any
	if err := request(ctx, get, path+"plan", maxList, into(&plan)); err != nil {
		return nil, err
	}
	l, tails := newEventLog(steps{}), map[string]*tail{}
	l.steps.add(plan, "")
	err = request(ctx, get, path+"events", maxEvents, func(r io.Reader) error {
		return readEvents(r, func(e event) {
			l.add(e)
			id := e.Data.Origin.ID
			if e.Event != "log" || l.tasks[id] == nil {
				return
			}
			if tails[id] == nil {
				tails[id] = &tail{parts: map[string]string{}}
			}
			tails[id].write(e.Data.Origin.Source, e.Data.Payload)
		})
	})
	failed := slices.DeleteFunc(l.order, func(id string) bool {
		t, name := l.tasks[id], l.steps[id]
		named := name == c.Step || strings.HasPrefix(name, c.Step+" (")
		return !named || t.worker != c.Worker || t.result == "" || t.result == flake.Passed
	})
	if len(failed) != 1 { // of a build that runs, the events have no end
		return nil, errors.Join(err, errors.New("the task is not one failed task of its build"))
	}
	return tails[failed[0]].end(), nil
}

// container decodes an element of /api/v1/teams/TEAM/containers (atc/container.go).
type container struct {
	Handle string `json:"id"`
	Worker string `json:"worker_name"`
	Build  int    `json:"build_id"`
	Step   string `json:"step_name"`
}

// containerOf looks for a container in all teams.
func containerOf(ctx context.Context, get Get, handle string) (container, error) {
	var teams []struct {
		Name string `json:"name"`
	}
	if err := request(ctx, get, "/api/v1/teams", maxList, into(&teams)); err != nil {
		return container{}, err
	}
	for _, team := range teams {
		var all []container
		path := "/api/v1/teams/" + url.PathEscape(team.Name) + "/containers?type=task"
		if err := request(ctx, get, path, maxList, into(&all)); err != nil {
			return container{}, err
		}
		for _, c := range all {
			if c.Handle == handle {
				return c, nil
			}
		}
	}
	return container{}, fmt.Errorf("cannot find container %s in Concourse", handle)
}

var (
	// harmlessCounts are parts of lines that name no error.
	harmlessCounts = lazyregexp.New(`(?i)\b(0|no) (errors?|failed|failures?)\b`)
	errorWords     = lazyregexp.New(`\b(?i:errors?|traceback|failed|fatal|panic|assert\w*|no such file|` +
		`permission denied)\b|[a-z]Error\b|[a-z]Exception\b`)
	colours = lazyregexp.New("\x1b\\[[0-9;]*[A-Za-z]")
)

// tail keeps the last lines of a task's output that name an error.
type tail struct {
	parts map[string]string // by source: the line that has not ended
	lines []string
}

// write adds output, which comes in pieces.
func (t *tail) write(source, payload string) {
	text := t.parts[source] + payload
	for {
		line, rest, ended := strings.Cut(text, "\n")
		if !ended {
			break
		}
		t.add(line)
		text = rest
	}
	t.parts[source] = text[:min(len(text), maxPart)]
}

// add keeps a line that names an error.
func (t *tail) add(line string) {
	line = strings.TrimRight(line[:min(len(line), maxPart)], "\r")
	line = strings.TrimSpace(colours().ReplaceAllString(line[strings.LastIndex(line, "\r")+1:], ""))
	if strings.HasPrefix(line, testreport.Prefix) { // it names all tests that failed
		return
	}
	if errorWords().MatchString(harmlessCounts().ReplaceAllString(line, "")) {
		t.lines = append(t.lines, sanitize.Line(line, maxErrorLine))
		t.lines = t.lines[max(0, len(t.lines)-maxErrorLines):]
	}
}

// end returns the lines, with those that have no end.
func (t *tail) end() []string {
	if t == nil {
		return nil
	}
	for _, source := range []string{"stdout", "stderr"} {
		t.add(t.parts[source])
	}
	return t.lines
}
