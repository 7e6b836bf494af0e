package jobexporter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The answers of Concourse 8 (atc/summary.go, atc/pipeline.go, atc/team.go),
// as far as they are used here.

// job is an element of GET /api/v1/jobs: all active jobs of all pipelines that
// the user may see, those of public pipelines of other teams as well.
type job struct {
	Team     string         `json:"team_name"`
	Pipeline string         `json:"pipeline_name"`
	Vars     map[string]any `json:"pipeline_instance_vars"`
	Name     string         `json:"name"`
	Paused   bool           `json:"paused"`
	Finished *build         `json:"finished_build"`
	Next     *build         `json:"next_build"`
}

// build has its times in Unix seconds. A time that is not there yet is left out
// or, in the list of all jobs, that of Go's zero time: -62135596800.
type build struct {
	Status string `json:"status"`
	Start  int64  `json:"start_time"`
	End    int64  `json:"end_time"`
}

// pipeline is an element of GET /api/v1/pipelines.
type pipeline struct {
	Team     string         `json:"team_name"`
	Name     string         `json:"name"`
	Vars     map[string]any `json:"instance_vars"`
	Paused   bool           `json:"paused"`
	Archived bool           `json:"archived"`
}

// team is an element of GET /api/v1/teams: those that the user is in.
type team struct {
	Name string `json:"name"`
}

// worker is an element of GET /api/v1/workers: those of all teams for an
// administrator, else those that the user's teams may use.
type worker struct {
	State string   `json:"state"`
	Tags  []string `json:"tags"`
}

// decodeList reads a JSON array element by element, so that only what is used
// of it is ever held. Concourse may answer null for an empty one.
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

// atEnd is an error where more than one value was answered.
func atEnd(d *json.Decoder) error {
	if _, err := d.Token(); err == nil {
		return errors.New("there is more after the JSON list")
	} else if !errors.Is(err, io.EOF) {
		return decodeError(err)
	}
	return nil
}

// decodeError keeps errors of the connection and of bounds as they are, and says
// of others only where they are: an answer is not for logs.
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

// errTooMuch is what reading past maxAnswer gives.
var errTooMuch = fmt.Errorf("the answer has more than %d bytes", maxAnswer)

// bounded reads at most left bytes, and then fails: a cut answer must not pass
// for a whole one.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
