package builds

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/testreport"
)

// Bounds of the events of a build.
const (
	maxEvent = 1 << 20 // bytes of one event
	maxTasks = 500
	// maxResults bounds the lines of results of one task, and maxAllResults those of a build:
	// a task prints as many as it likes.
	maxResults    = 100
	maxAllResults = 1000
)

// Texts of Concourse's error events that are not errors of Concourse (atc/exec/log_error_step.go).
const (
	timedOut    = "timeout exceeded"
	interrupted = "interrupted"
)

// event decodes the data of an event (atc/event/events.go), as far as it is used. Payload is
// read for lines of results only.
type event struct {
	Event string `json:"event"`
	Data  struct {
		Origin struct {
			ID     string `json:"id"`
			Source string `json:"source"`
		} `json:"origin"`
		Time     int64           `json:"time"`
		Exit     int             `json:"exit_status"`
		Config   json.RawMessage `json:"config"`
		Worker   string          `json:"selected_worker"`
		Message  string          `json:"message"`
		Payload  string          `json:"payload"`
		Plan     json.RawMessage `json:"plan"`
		Version  json.RawMessage `json:"version"`
		Substeps []any           `json:"substeps"`
	} `json:"data"`
}

// task holds the events of a task. Its id is the one of its plan.
type task struct {
	worker  string
	config  string // JSON of its program and image
	image   string // version of a fetched image
	end     int64
	result  flake.Result
	reason  string // sign of infrastructure in Concourse's error, "": none
	results *testreport.Report
	printed int              // lines of results
	lines   map[string]*line // by source
}

// eventLog collects the tasks of a build from its events.
type eventLog struct {
	steps  steps
	tasks  map[string]*task
	order  []string
	parsed int               // lines of results
	images map[string]string // task by the id of the plan that fetches its image
}

func newEventLog(s steps) *eventLog {
	return &eventLog{steps: s, tasks: map[string]*task{}, images: map[string]string{}}
}

// readEvents reads the stream of events up to its end. Concourse sends the event "end" and
// keeps the connection, so the reader must not wait for the end of the stream. A stream
// without that event is incomplete.
func readEvents(r io.Reader, each func(event)) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	kind := ""
	for {
		text, err := readLine(lines)
		switch {
		case errors.Is(err, io.EOF):
			return errors.New("the events end too early")
		case err != nil:
			return errors.New("the events have no end in time")
		}
		field, value, _ := bytes.Cut(text, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			if kind = string(value); kind == "end" {
				return nil
			}
		case "data":
			var e event
			if kind == "event" && json.Unmarshal(value, &e) == nil {
				each(e)
			}
		}
	}
}

// readLine returns a line without its end, or nothing of a line longer than maxEvent.
func readLine(r *bufio.Reader) (out []byte, err error) {
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(out)+len(part) > maxEvent; !long {
			out = append(out, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long {
			out = nil
		}
		return bytes.TrimRight(out, "\r\n"), err
	}
}

// add adds an event.
func (l *eventLog) add(e event) {
	d := e.Data
	switch e.Event {
	case "across-substeps":
		l.steps.add(d.Substeps, "")
		return
	case "image-get":
		var plan struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(d.Plan, &plan) == nil {
			l.images[plan.ID] = d.Origin.ID
		}
		return
	case "finish-get":
		if t := l.tasks[l.images[d.Origin.ID]]; t != nil {
			t.image = string(d.Version)
		}
		return
	}
	if _, is := l.steps[d.Origin.ID]; !is {
		return // not of a task
	}
	t := l.tasks[d.Origin.ID]
	if t == nil {
		if len(l.tasks) == maxTasks {
			return
		}
		t = &task{lines: map[string]*line{}}
		l.tasks[d.Origin.ID] = t
		l.order = append(l.order, d.Origin.ID)
	}
	switch e.Event {
	case "selected-worker":
		t.worker = d.Worker
	case "start-task": // initialize-task has no program yet
		t.config = string(d.Config)
	case "finish-task":
		t.end, t.result = d.Time, flake.Failed
		if d.Exit == 0 {
			t.result = flake.Passed
		}
	case "error":
		t.fail(d.Message, d.Time)
	case "log":
		l.print(t, d.Origin.Source, d.Payload)
	}
}

// signs are parts of Concourse's errors that show a lost worker or connection. Other errors,
// such as a program that does not exist, may be mistakes of the pipeline.
var signs = []struct{ text, reason string }{
	{"disappeared", "the worker or a volume disappeared"},
	{"no space left on device", "a disk was full"},
	{"connection refused", "a connection was refused"},
	{"connection reset", "a connection was reset"},
	{"i/o timeout", "no answer in time"},
	{"unexpected EOF", "a connection ended"},
	{"no route to host", "no route to a host"},
}

// fail ends a task without an exit status.
func (t *task) fail(message string, at int64) {
	for _, s := range signs {
		if strings.Contains(message, s.text) {
			t.reason = s.reason
			break
		}
	}
	switch t.end = at; message {
	case timedOut:
		t.result = flake.Failed
	case interrupted:
		t.result = flake.Aborted
	default:
		t.result = flake.Errored
	}
}

// print looks for lines of results, up to the bounds. Nothing else of the output is kept.
func (l *eventLog) print(t *task, source, payload string) {
	if t.lines[source] == nil {
		t.lines[source] = &line{}
	}
	t.lines[source].write(payload, func(text string) {
		if t.printed == maxResults || l.parsed == maxAllResults {
			return
		}
		t.printed, l.parsed = t.printed+1, l.parsed+1
		r, err := testreport.Parse(text)
		switch {
		case err != nil:
		case t.results == nil:
			t.results = &r
		default:
			t.results.Add(r)
		}
	})
}

// runs returns the tasks that ended, in the order of their start. inputs is the digest of
// the build's inputs, "" if unknown.
func (l *eventLog) runs(b *build, inputs string) (out []flake.Run) {
	for _, id := range l.order {
		t := l.tasks[id]
		if t.result == "" {
			continue
		}
		r := flake.Run{Key: b.key, Build: b.ID, Name: b.Name, Worker: t.worker, Time: time.Unix(t.end, 0).UTC(),
			Result: t.result, Tests: t.results}
		if r.Result == flake.Errored && t.reason != "" {
			r.Cause, r.Reason = flake.ByConcourse, t.reason
		}
		if r.Step = l.steps[id]; inputs != "" {
			r.Inputs = digest(inputs, t.config, t.image)
		}
		out = append(out, r)
	}
	return out
}

// line finds lines that begin with the prefix of results in output that comes in pieces. It
// keeps at most one line.
type line struct {
	text strings.Builder
	skip bool // the current line is another one
}

func (l *line) write(payload string, each func(string)) {
	for payload != "" {
		part, rest, ended := strings.Cut(payload, "\n")
		payload = rest
		if !l.skip {
			l.text.WriteString(part[:min(len(part), testreport.MaxLine+2-l.text.Len())])
			head := l.text.String()
			head = head[:min(len(head), len(testreport.Prefix))]
			l.skip = !strings.HasPrefix(testreport.Prefix, head) || l.text.Len() > testreport.MaxLine+1
		}
		if ended {
			if !l.skip {
				each(l.text.String())
			}
			l.text, l.skip = strings.Builder{}, false
		}
	}
}
