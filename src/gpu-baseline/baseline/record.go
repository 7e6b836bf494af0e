package baseline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// The unit looks at a GPU each few seconds: it is waited for so long, and asked so often.
const (
	lookTime  = 30 * time.Second
	lookPause = time.Second
)

// record is what a unit says of a measurement. Another one's has valid and reason alone, of
// the run that has just ended.
type record struct {
	Valid  *bool
	Reason string
	Level  *string // empty where the clocks are not fixed, which no other run would change
	Looked string  // until when the rest is known, RFC 3339; empty: never
	Wrong  *[]struct {
		From, To time.Time
		Reason   string
	}
}

// recorded is why a run of that time does not count; "" where nothing is known against it.
func (m *meter) recorded(ctx context.Context, began, ended time.Time) (why string, err error) {
	for m.record != "" {
		data, err := m.ReadFile(m.record)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("cannot read the record GPU_BENCH_RECORD: %w", err)
		}
		r, err := parseRecord(data)
		switch {
		case err != nil:
			return "", err
		case r.unfixed() && !m.told:
			m.told = true
			fmt.Fprintf(m.log, "the runs are as the GPU's own clocks make them: %s\n", r.reason())
			return "", nil
		case r.unfixed():
			return "", nil
		case r.knows(ended):
			return r.against(began, ended), nil
		case m.Now().Sub(ended) > lookTime:
			return "the unit did not look at the GPU after the end", nil
		case ctx.Err() != nil:
			return "", errors.New("interrupted")
		}
		m.Sleep(lookPause)
	}
	return "", nil
}

// parseRecord reads {"valid": false, "reason": "throttled"}, with more or without.
func parseRecord(data []byte) (r record, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("cannot read the record GPU_BENCH_RECORD: %s", visible(err.Error()))
	}
	return r, nil
}

func (r record) unfixed() bool { return r.Level != nil && *r.Level == "" }

// knows tells whether it says all of what was until a time.
func (r record) knows(ended time.Time) bool {
	looked, err := time.Parse(time.RFC3339, r.Looked)
	return r.Level == nil || err == nil && !looked.Before(ended)
}

// against is why a run of that time does not count; "" where it does.
func (r record) against(began, ended time.Time) string {
	if r.Wrong == nil && (r.Valid == nil || *r.Valid) {
		return ""
	}
	if r.Wrong == nil {
		return r.reason()
	}
	for _, w := range *r.Wrong {
		if w.From.Before(ended) && w.To.After(began) {
			return reasonOf(w.Reason)
		}
	}
	return ""
}

func (r record) reason() string { return reasonOf(r.Reason) }

func reasonOf(text string) string {
	return cmp.Or(strings.TrimSpace(visible(strings.ToValidUTF8(text[:min(len(text), maxName)], ""))), "no reason is given")
}
