package jobexporter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Answers of Concourse 8 (atc/summary.go, atc/pipeline.go, atc/team.go), as far as this
// package uses them.

// job decodes an element of GET /api/v1/jobs: the active jobs of all pipelines that the
// user may see. These include public pipelines of other teams.
type job struct {
	Team     string         `json:"team_name"`
	Pipeline string         `json:"pipeline_name"`
	Vars     map[string]any `json:"pipeline_instance_vars"`
	Name     string         `json:"name"`
	Paused   bool           `json:"paused"`
	Finished *build         `json:"finished_build"`
	Next     *nextBuild     `json:"next_build"`
}

// build has times in Unix seconds. A missing time is left out or, in the list of all jobs,
// Go's zero time: -62135596800.
type build struct {
	Status string `json:"status"`
	Start  int64  `json:"start_time"`
	End    int64  `json:"end_time"`
}

// nextBuild describes a pending or started build: the oldest of its job.
type nextBuild struct {
	build
	ID   int    `json:"id"`
	Name string `json:"name"`
}

// pipeline decodes an element of GET /api/v1/pipelines.
type pipeline struct {
	Team     string         `json:"team_name"`
	Name     string         `json:"name"`
	Vars     map[string]any `json:"instance_vars"`
	Paused   bool           `json:"paused"`
	Archived bool           `json:"archived"`
}

// team decodes an element of GET /api/v1/teams, which lists the user's teams.
type team struct {
	Name string `json:"name"`
}

// worker decodes an element of GET /api/v1/workers: all workers for an administrator,
// otherwise those that the user's teams may use.
type worker struct {
	Name     string   `json:"name"`
	State    string   `json:"state"`
	Platform string   `json:"platform"`
	Tags     []string `json:"tags"`
	Team     string   `json:"team"` // "" for a worker of all teams
}

// decodeList decodes a JSON array element by element, so that only the used parts stay in
// memory. Concourse may answer null for an empty one.
func decodeList[T any](r io.Reader, each func(T)) error {
	d := json.NewDecoder(r)
	first, err := d.Token()
	switch {
	case err != nil:
		return decodeError(err)
	case first == nil:
		return atEnd(d)
	case first != json.Delim('['):
		return errors.New("the answer is no JSON list")
	}
	for n := 0; d.More(); n++ {
		if n == maxItems {
			return fmt.Errorf("the answer has more than %d elements", maxItems)
		}
		var element T
		if err := d.Decode(&element); err != nil {
			return decodeError(err)
		}
		each(element)
	}
	if _, err := d.Token(); err != nil {
		return decodeError(err)
	}
	return atEnd(d)
}

// atEnd returns an error if the answer has more than one value.
func atEnd(d *json.Decoder) error {
	if _, err := d.Token(); err == nil {
		return errors.New("there is more after the JSON list")
	} else if !errors.Is(err, io.EOF) {
		return decodeError(err)
	}
	return nil
}

// decodeError returns errors of the connection and of bounds unchanged. Of other errors it
// returns only the position, because an answer must not be in logs.
func decodeError(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("the answer is no JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("the answer has a %s for %s", kind.Value, kind.Field)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the answer ends too early")
	}
	return err
}

// errTooMuch is the error of reading past maxAnswer.
var errTooMuch = fmt.Errorf("the answer has more than %d bytes", maxAnswer)

// bounded reads at most left bytes and then fails, because a cut answer must not look
// complete.
type bounded struct {
	r         io.Reader
	remaining int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.remaining <= 0 {
		return 0, errTooMuch
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.remaining)])
	b.remaining -= int64(n)
	return n, err
}
