package pin

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/oci/rawjson"
)

// A task finds what is known of its measurement in VerdictPath, read-only: the file
// VerdictName of its bundle, which goes with the container. RecordVariable names it.
const (
	VerdictName    = "gpu-bench.json"
	VerdictPath    = "/opt/concourse-ci-machine/bench.json"
	RecordVariable = "GPU_BENCH_RECORD"
)

// verdictSize is that of the file: it is written in one piece, in place, as the task has
// this very file.
const verdictSize = 2048

// Verdict is whether what a task measures counts.
type Verdict struct {
	Valid  bool
	Reason string    // why not; "" where it does
	Level  Level     // "" where its GPUs are not pinned
	Looked time.Time // when that was last seen of all of its GPUs; zero for never
	Looks  int
}

// notYet is the reason until the first look.
const notYet = "the unit has not looked at the GPU yet: it does each few seconds"

// VerdictOf sums up the records of a task's GPUs: the least that is true of each.
func VerdictOf(records []Record) Verdict {
	v := Verdict{Valid: len(records) > 0}
	for i, r := range records {
		why := r.Why
		if why == "" && r.Looks == 0 {
			why = notYet
		}
		if why != "" && (v.Valid || v.Reason == notYet) {
			v.Valid, v.Reason = false, why
		}
		if i == 0 || r.Looked.Before(v.Looked) {
			v.Looked = r.Looked
		}
		if i == 0 || r.Looks < v.Looks {
			v.Looks = r.Looks
		}
		v.Level = r.Level
	}
	return v
}

// maxReason bounds a reason, in bytes.
const maxReason = 300

func (v Verdict) encode() []byte {
	reason := v.Reason
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	out := strconv.AppendBool([]byte(`{"valid": `), v.Valid)
	out = rawjson.AppendString(append(out, `, "reason": `...), reason)
	out = rawjson.AppendString(append(out, `, "level": `...), string(v.Level))
	out = strconv.AppendInt(append(out, `, "looks": `...), int64(v.Looks), 10)
	looked := ""
	if !v.Looked.IsZero() {
		looked = v.Looked.UTC().Format(time.RFC3339)
	}
	out = append(rawjson.AppendString(append(out, `, "looked": `...), looked), '}')
	return append(out, strings.Repeat(" ", max(0, verdictSize-1-len(out)))+"\n"...)
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
