package fixedclocks

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// VerdictPath is the read-only file in which a task finds whether its measurements are
// valid. It is the file VerdictName of its bundle, which is removed with the container.
// RecordVariable names it in the environment.
const (
	VerdictName    = "gpu-fixed-clocks.json"
	VerdictPath    = "/opt/concourse-ci-machine/fixed-clocks.json"
	RecordVariable = "GPU_FIXED_CLOCKS_RECORD"
)

// verdictSize is the size of the file. It is written in one piece within a page and in
// place, because the task has this file mounted.
const verdictSize = 4096

// Verdict reports whether a task's measurements are valid.
type Verdict struct {
	Valid        bool
	Reason       string    // why not; "" if they are
	Level        Level     // "" if the clocks are not fixed
	Looked       time.Time // the last look that saw all of its GPUs; zero for never
	Looks        int
	InvalidSpans []Span        // times in which they are not valid; measurements before and after are
	Clocks       []Measurement // of the GPUs that were busy
}

// notYet is the reason until the first look.
const notYet = "the GPU has not been checked yet; it is checked within seconds"

// VerdictOf combines the records of a task's GPUs. It is valid only as far as all records
// are.
func VerdictOf(records []Measurement) Verdict {
	v := Verdict{Valid: len(records) > 0}
	var invalid spans
	for i, r := range records {
		if r.Looks == 0 && len(r.InvalidSpans) == 0 {
			v.Valid, v.Reason = false, notYet
		}
		for _, s := range r.InvalidSpans {
			invalid = invalid.with(s)
		}
		if len(r.Clocks) > 0 {
			v.Clocks = append(v.Clocks, r)
		}
		if i == 0 || r.Looked.Before(v.Looked) {
			v.Looked = r.Looked
		}
		if i == 0 || r.Looks < v.Looks {
			v.Looks = r.Looks
		}
		v.Level = r.Level
	}
	if v.InvalidSpans = invalid; len(invalid) > 0 { // a known problem replaces notYet
		v.Valid, v.Reason = false, invalid[0].Reason
	}
	return v
}

// maxReason bounds a reason, in bytes.
const maxReason = 300

func (v Verdict) encode() []byte {
	out := strconv.AppendBool([]byte(`{"valid": `), v.Valid)
	out = rawjson.AppendString(append(out, `, "reason": `...), truncate(v.Reason, maxReason))
	out = rawjson.AppendString(append(out, `, "level": `...), string(v.Level))
	out = strconv.AppendInt(append(out, `, "looks": `...), int64(v.Looks), 10)
	looked := ""
	if !v.Looked.IsZero() {
		looked = v.Looked.UTC().Format(time.RFC3339)
	}
	out = rawjson.AppendString(append(out, `, "looked": `...), looked)
	out = append(out, `, "invalid_spans": [`...)
	for i, s := range v.InvalidSpans {
		out = fmt.Appendf(out, `%s{"from": "%s", "to": "%s", "reason": `, separator(i),
			s.From.UTC().Format(milliseconds), s.To.UTC().Format(milliseconds))
		out = append(rawjson.AppendString(out, s.Reason), '}')
	}
	out = append(out, `], "clocks": {`...)
	for i, g := range v.Clocks {
		if len(out) > verdictSize-200 { // more GPUs than any machine has
			break
		}
		out = append(rawjson.AppendString(append(out, separator(i)...), g.GPU), `: {`...)
		for i, c := range g.Clocks {
			out = rawjson.AppendString(append(out, separator(i)...), c.Domain)
			out = fmt.Appendf(out, `: [%d, %d]`, c.Min, c.Max)
		}
		out = append(out, '}')
	}
	out = append(out, "}}"...)
	return append(out, strings.Repeat(" ", max(0, verdictSize-1-len(out)))+"\n"...)
}

// milliseconds formats a time in RFC 3339.
const milliseconds = "2006-01-02T15:04:05.000Z07:00"

func separator(i int) string {
	if i == 0 {
		return ""
	}
	return ", "
}

// MakeVerdict makes the file in an open bundle. All users of the task may read it.
func MakeVerdict(bundle int, v Verdict) error {
	fd, err := unix.Openat(bundle, VerdictName,
		unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fchmod(fd, 0o644); err != nil { // the umask removed bits
		return err
	}
	return writeVerdictFile(fd, v)
}

// WriteVerdict changes the file of a task that has one. A missing file is not an error.
func WriteVerdict(bundle string, v Verdict) error {
	fd, err := unix.Open(filepath.Join(bundle, VerdictName),
		unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return writeVerdictFile(fd, v)
}

func writeVerdictFile(fd int, v Verdict) error {
	data := v.encode()
	n, err := unix.Pwrite(fd, data, 0)
	if err == nil && n != len(data) {
		err = errors.New("it was written in part")
	}
	return err
}

// Span holds a time in which a task's measurements are not valid: from the look before the
// problem was first seen to the look that last saw it.
type Span struct {
	From, To time.Time
	Reason   string // the first problem
}

// maxSpans and maxWhy, in bytes, bound the spans of a record and a verdict.
const maxSpans, maxWhy = 6, 120

// spans lists times in order, without overlaps.
type spans []Span

// with returns the list with one more time. If there are too many, the earliest two are
// joined, with the time between them: too few valid results do less harm than an invalid
// one.
func (all spans) with(one Span) (apart spans) {
	one.Reason = truncate(one.Reason, maxWhy)
	for _, s := range slices.SortedStableFunc(slices.Values(append(slices.Clone(all), one)),
		func(a, b Span) int { return a.From.Compare(b.From) }) {
		if n := len(apart); n == 0 || s.From.After(apart[n-1].To) {
			apart = append(apart, s)
		} else if s.To.After(apart[n-1].To) {
			apart[n-1].To = s.To
		}
	}
	if len(apart) > maxSpans {
		apart[1].From, apart[1].Reason = apart[0].From, apart[0].Reason
		apart = apart[1:]
	}
	return apart
}

// truncate cuts a text to a number of bytes and makes it one line.
func truncate(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// MarkInvalid records a problem for the time since the last look.
func (r *Measurement) MarkInvalid(why string, until time.Time) {
	from := r.Looked
	if from.IsZero() {
		from = r.Since
	}
	r.InvalidSpans = r.InvalidSpans.with(Span{from, until, why})
}
