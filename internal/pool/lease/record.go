package lease

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"concourse-ci-machine/internal/base/rawjson"
)

// recordSize is the size of each GPU's file: one write within a page, which no kill can
// tear.
const recordSize = 2048

// phase is the progress of a container with a lease.
type phase string

const (
	created phase = "created" // its task will come by exec
	entered phase = "entered" // an exec was let in
	ended   phase = "ended"   // the lease was found dead; only Enter renews it
	// A container or pod holds its GPUs from start to end, without an exec. Programs before
	// the field kind do not know this phase and treat the GPU as held.
	holding phase = "holding"
)

// maxCalls bounds the execs of one container that run at the same time.
const maxCalls = 8

// process identifies one process forever, as Process does.
type process struct {
	pid   int
	start uint64
}

// record holds the content of a GPU's file about its holder.
type record struct {
	kind           Kind   // missing in records before this field, which are of tasks
	boot           string // /proc/sys/kernel/random/boot_id
	container      string // State.Container
	bundle         string
	pidFile        string
	cgroup         string
	init           process   // of the container, once an exec was let in; zero before
	calls          []process // runc calls that may be in progress, at most maxCalls
	phase          phase
	since          time.Time // of the lease, in milliseconds
	called         time.Time // of the last call, in milliseconds
	gpus           int       // number of GPUs in the lease
	stepHash       string    // see Call
	remainingSince int64     // when EndRemaining first saw remaining processes, in milliseconds; 0 for never
}

func (r record) appendTo(out []byte) []byte {
	out = rawjson.AppendString(append(out, `{"container":`...), r.container)
	out = rawjson.AppendString(append(out, `,"phase":`...), string(r.phase))
	out = strconv.AppendInt(append(out, `,"gpus":`...), int64(r.gpus), 10)
	out = strconv.AppendInt(append(out, `,"since":`...), r.since.UnixMilli(), 10)
	out = strconv.AppendInt(append(out, `,"called":`...), r.called.UnixMilli(), 10)
	out = appendProcesses(append(out, `,"calls":`...), r.calls)
	if r.init.pid != 0 {
		out = appendProcesses(append(out, `,"init":`...), []process{r.init})
	}
	out = rawjson.AppendString(append(out, `,"boot":`...), r.boot)
	out = rawjson.AppendString(append(out, `,"bundle":`...), r.bundle)
	out = rawjson.AppendString(append(out, `,"pid_file":`...), r.pidFile)
	out = rawjson.AppendString(append(out, `,"cgroup":`...), r.cgroup)
	if r.kind != Task {
		out = rawjson.AppendString(append(out, `,"kind":`...), string(r.kind))
	}
	if r.stepHash != "" {
		out = rawjson.AppendString(append(out, `,"like":`...), r.stepHash)
	}
	if r.remainingSince != 0 {
		out = strconv.AppendInt(append(out, `,"left":`...), r.remainingSince, 10)
	}
	return append(out, '}')
}

func appendProcesses(out []byte, list []process) []byte {
	out = append(out, '[')
	for i, p := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(append(out, '['), int64(p.pid), 10)
		out = append(strconv.AppendUint(append(out, ','), p.start, 10), ']')
	}
	return append(out, ']')
}

// encode returns the whole content of a file.
func (r record) encode() ([]byte, error) {
	out := r.appendTo(make([]byte, 0, recordSize))
	if len(out) >= recordSize {
		return nil, fmt.Errorf("cannot record the lease of container %s: it has %d bytes, more than %d; its "+
			"paths are too long", r.container, len(out), recordSize-1)
	}
	return pad(out), nil
}

// pad appends spaces up to recordSize, and a newline as the last byte.
func pad(out []byte) []byte {
	from := len(out)
	out = slices.Grow(out, recordSize-from)[:recordSize]
	for i := from; i < recordSize-1; i++ {
		out[i] = ' '
	}
	out[recordSize-1] = '\n'
	return out
}

// trim drops the spaces at the end. Most files are empty, which is a quick check.
func trim(data []byte) []byte {
	if bytes.Count(data, []byte{' '})+bytes.Count(data, []byte{'\n'}) == len(data) {
		return nil
	}
	return bytes.TrimRight(data, " \n")
}

// decodeRecord reads a file's content, which must not change afterwards. It returns nil for
// an empty file.
func decodeRecord(data []byte) (*record, error) {
	if data = trim(data); len(data) == 0 {
		return nil, nil
	}
	doc, err := rawjson.Parse(data)
	if err != nil {
		return nil, err
	}
	f := fields{v: doc.Root()}
	r := record{
		kind: cmp.Or(Kind(f.text("kind")),
			Task), boot: f.text("boot"), container: f.text("container"), bundle: f.text("bundle"),
		pidFile: f.text("pid_file"), cgroup: f.text("cgroup"), phase: phase(f.text("phase")),
		since: f.time("since"), called: f.time("called"), gpus: f.number("gpus"), stepHash: f.text("like"),
	}
	r.calls = f.processes("calls")
	r.remainingSince = f.time("left").UnixMilli()
	if list := f.processes("init"); len(list) > 0 {
		r.init = list[0]
	}
	switch {
	case f.err != nil:
	case r.kind != Task && r.kind != Container && r.kind != Pod:
		f.err = fmt.Errorf("kind is %q", r.kind)
	case r.phase != ended && (r.kind == Task && r.phase != created && r.phase != entered || r.kind != Task &&
		r.phase != holding):
		f.err = fmt.Errorf("phase is %q", r.phase)
	case r.container == "" || r.boot == "" || r.kind != Pod && (r.pidFile == "" || r.cgroup == ""):
		f.err = errors.New("it lacks container, boot, pid_file or cgroup")
	}
	if f.err != nil {
		return nil, f.err
	}
	return &r, nil
}

// fields reads members of an object and records the first error.
type fields struct {
	v   rawjson.Value
	err error
}

func (f *fields) text(key string) string {
	s, err := f.v.StringOf(key)
	f.note(err)
	return s
}

func (f *fields) number(key string) int {
	n, err := f.v.NumberOf(key, 1<<31-1)
	f.note(err)
	return int(n)
}

// time reads a time in milliseconds, at most in the year 10889.
func (f *fields) time(key string) time.Time {
	n, err := f.v.NumberOf(key, 1<<48)
	f.note(err)
	return time.UnixMilli(int64(n))
}

func (f *fields) processes(key string) (list []process) {
	calls, err := f.v.Of(key, rawjson.Array)
	f.note(err)
	if calls.Len() > maxCalls {
		f.note(fmt.Errorf("%s are %d, more than %d", key, calls.Len(), maxCalls))
		return nil
	}
	for call := range calls.Elements() {
		var pair [2]uint64
		if call.Len() != len(pair) {
			f.note(fmt.Errorf("%s: %s is not a pair of numbers", key, call.Raw()))
			return nil
		}
		i := 0
		for n := range call.Elements() {
			pair[i], err = n.Whole(1<<63 - 1)
			f.note(err)
			i++
		}
		if pair[0] < 1 || pair[0] > 1<<31-1 {
			f.note(fmt.Errorf("%s: %d is not a process id", key, pair[0]))
		}
		list = append(list, process{int(pair[0]), pair[1]})
	}
	return list
}

func (f *fields) note(err error) {
	if f.err == nil {
		f.err = err
	}
}
