package clockpin

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/rawjson"
)

// A task finds what is known of its measurement in VerdictPath, read-only: the file
// VerdictName of its bundle, which goes with the container. RecordVariable names it.
const (
	VerdictName    = "gpu-bench.json"
	VerdictPath    = "/opt/concourse-ci-machine/bench.json"
	RecordVariable = "GPU_BENCH_RECORD"
)

// verdictSize is that of the file: it is written in one piece within a page, in place, as
// the task has this very file.
const verdictSize = 4096

// Verdict is whether what a task measures counts.
type Verdict struct {
	Valid  bool
	Reason string    // why not; "" where it does
	Level  Level     // "" where its GPUs are not pinned
	Looked time.Time // when that was last seen of all of its GPUs; zero for never
	Looks  int
	Wrong  []Span // when it does not count: what ran before or after does
	Clocks []SeenClocks
}

// SeenClocks are those of one GPU, while it was busy.
type SeenClocks struct {
	GPU    string // of its lease
	Clocks []Clock
}

// notYet is the reason until the first look.
const notYet = "the unit has not looked at the GPU yet: it does each few seconds"

// VerdictOf sums up the records of a task's GPUs: the least that is true of each.
func VerdictOf(records []Record) Verdict {
	v := Verdict{Valid: len(records) > 0}
	var wrong spans
	for i, r := range records {
		if r.Looks == 0 && len(r.Wrong) == 0 {
			v.Valid, v.Reason = false, notYet
		}
		for _, s := range r.Wrong {
			wrong = wrong.with(s)
		}
		if len(r.Clocks) > 0 {
			v.Clocks = append(v.Clocks, SeenClocks{r.GPU, r.Clocks})
		}
		if i == 0 || r.Looked.Before(v.Looked) {
			v.Looked = r.Looked
		}
		if i == 0 || r.Looks < v.Looks {
			v.Looks = r.Looks
		}
		v.Level = r.Level
	}
	if v.Wrong = wrong; len(wrong) > 0 { // what is known goes before what is not
		v.Valid, v.Reason = false, wrong[0].Why
	}
	return v
}

// maxReason bounds a reason, in bytes.
const maxReason = 300

func (v Verdict) encode() []byte {
	out := strconv.AppendBool([]byte(`{"valid": `), v.Valid)
	out = rawjson.AppendString(append(out, `, "reason": `...), bounded(v.Reason, maxReason))
	out = rawjson.AppendString(append(out, `, "level": `...), string(v.Level))
	out = strconv.AppendInt(append(out, `, "looks": `...), int64(v.Looks), 10)
	looked := ""
	if !v.Looked.IsZero() {
		looked = v.Looked.UTC().Format(time.RFC3339)
	}
	out = rawjson.AppendString(append(out, `, "looked": `...), looked)
	out = append(out, `, "wrong": [`...)
	for i, s := range v.Wrong {
		out = fmt.Appendf(out, `%s{"from": "%s", "to": "%s", "reason": `, between(i), s.From.UTC().Format(milliseconds), s.To.UTC().Format(milliseconds))
		out = append(rawjson.AppendString(out, s.Why), '}')
	}
	out = append(out, `], "clocks": {`...)
	for i, g := range v.Clocks {
		if len(out) > verdictSize-200 { // of more GPUs than any machine has
			break
		}
		out = append(rawjson.AppendString(append(out, between(i)...), g.GPU), `: {`...)
		for i, c := range g.Clocks {
			out = rawjson.AppendString(append(out, between(i)...), c.Domain)
			out = fmt.Appendf(out, `: [%d, %d]`, c.Min, c.Max)
		}
		out = append(out, '}')
	}
	out = append(out, "}}"...)
	return append(out, strings.Repeat(" ", max(0, verdictSize-1-len(out)))+"\n"...)
}

// milliseconds is a time in RFC 3339.
const milliseconds = "2006-01-02T15:04:05.000Z07:00"

func between(i int) string {
	if i == 0 {
		return ""
	}
	return ", "
}

// MakeVerdict makes the file in an open bundle. A program of any user of the task reads it.
func MakeVerdict(bundle int, v Verdict) error {
	fd, err := unix.Openat(bundle, VerdictName, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fchmod(fd, 0o644); err != nil { // the umask took some of it
		return err
	}
	return put(fd, v)
}

// WriteVerdict changes the file of a task that has it. One that is gone is nobody's.
func WriteVerdict(bundle string, v Verdict) error {
	fd, err := unix.Open(filepath.Join(bundle, VerdictName), unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return put(fd, v)
}

func put(fd int, v Verdict) error {
	data := v.encode()
	n, err := unix.Pwrite(fd, data, 0)
	if err == nil && n != len(data) {
		err = errors.New("it was written in part")
	}
	return err
}
