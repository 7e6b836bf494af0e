package builds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
)

// maxStep is the maximum number of characters of a step's name with its values.
const maxStep = 200

// resources decodes /api/v1/builds/ID/resources (atc/api/present/public_build_input.go).
type resources struct {
	Inputs []struct {
		Name    string            `json:"name"`
		Version map[string]string `json:"version"`
	} `json:"inputs"`
}

// tasks asks for the inputs, the plan and the events of a build.
func (c *Collector) tasks(ctx context.Context, b *build) ([]flake.Run, error) {
	path := fmt.Sprintf("/api/v1/builds/%d/", b.ID)
	var in resources
	if err := c.ask(ctx, path+"resources", maxList, into(&in)); err != nil {
		return nil, err
	}
	var plan any
	if err := c.ask(ctx, path+"plan", maxList, into(&plan)); err != nil {
		return nil, err
	}
	s := steps{}
	s.add(plan, "")
	l := newEventLog(s)
	if len(s) > 0 || hasAcross(plan) {
		if err := c.ask(ctx, path+"events", maxEvents, func(r io.Reader) error { return readEvents(r, l.add) }); err != nil {
			return nil, err
		}
	}
	return l.runs(b, in.digest(b)), nil
}

// digest returns a digest of the versions. A version of the resource type time differs in
// each build and changes nothing, so it is left out. A build without other versions equals
// only its own reruns.
func (r resources) digest(b *build) string {
	var all []string
	for _, in := range r.Inputs {
		if isTime(in.Version) {
			continue
		}
		text, _ := json.Marshal(in.Version) // with sorted keys
		all = append(all, digest(in.Name, string(text)))
	}
	if slices.Sort(all); len(all) > 0 {
		return digest(all...)
	}
	if b.RerunOf != nil {
		return digest("build", fmt.Sprint(b.RerunOf.ID))
	}
	return digest("build", fmt.Sprint(b.ID))
}

// isTime reports whether a version is one of the resource type time.
func isTime(version map[string]string) bool {
	if len(version) != 1 {
		return false
	}
	_, err := time.Parse(time.RFC3339, version["time"])
	if err != nil {
		_, err = time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", version["time"])
	}
	return err == nil
}

// digest returns a short digest of texts.
func digest(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d %s", len(t), t)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// steps maps the id of a task's plan to the name of its step. Steps of across have their
// values in the name, such as "unit (gfx942)", because each value is another task.
type steps map[string]string

// add adds the tasks in any part of a public plan (atc/public_plan.go).
func (s steps) add(plan any, values string) {
	switch v := plan.(type) {
	case []any:
		for _, one := range v {
			s.add(one, values)
		}
	case map[string]any:
		if of, is := v["values"].([]any); is && v["step"] != nil {
			values = strings.TrimPrefix(values+", "+join(of), ", ")
			values = values[:min(len(values), utf8.UTFMax*maxStep)] // a name has no more
		}
		id, _ := v["id"].(string)
		if t, is := v["task"].(map[string]any); is && id != "" && len(s) < maxTasks {
			name, _ := t["name"].(string)
			if values != "" {
				name += " (" + values + ")"
			}
			s[id] = sanitize.Line(name, maxStep)
		}
		for _, one := range v {
			s.add(one, values)
		}
	}
}

// join returns values as one text.
func join(values []any) string {
	var all []string
	for _, v := range values {
		if text, is := v.(string); is {
			all = append(all, text)
			continue
		}
		text, _ := json.Marshal(v) // it came from JSON
		all = append(all, string(text))
	}
	return strings.Join(all, ", ")
}

// hasAcross reports whether tasks of the plan are known only from events.
func hasAcross(plan any) bool {
	switch v := plan.(type) {
	case []any:
		return slices.ContainsFunc(v, hasAcross)
	case map[string]any:
		if v["across"] != nil {
			return true
		}
		for _, one := range v {
			if hasAcross(one) {
				return true
			}
		}
	}
	return false
}
