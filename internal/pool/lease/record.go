package lease

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
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
	program        string    // see Call
	title          string    // of a run, see RunCall
	remainingSince int64     // when EndRemaining first saw remaining processes, in milliseconds; 0 for never
}

// members declares the format of a record.
func (r *record) members(c *rawjson.Codec) {
	gpus, remaining := uint64(r.gpus), uint64(r.remainingSince)
	kind := r.kind
	if kind == Task { // which has no kind in its file
		kind = ""
	}
	c.Version(1)
	c.String("container", &r.container)
	c.String("phase", (*string)(&r.phase))
	c.Number("gpus", &gpus, 1<<31-1)
	c.Millis("since", &r.since)
	c.Millis("called", &r.called)
	processes(c, "calls", &r.calls)
	if c.Reading() || r.init.pid != 0 {
		inits := []process{r.init}
		if processes(c, "init", &inits); len(inits) > 0 {
			r.init = inits[0]
		}
	}
	c.String("boot", &r.boot)
	c.String("bundle", &r.bundle)
	c.String("pid_file", &r.pidFile)
	c.String("cgroup", &r.cgroup)
	c.OptionalString("kind", (*string)(&kind))
	c.OptionalString("like", &r.stepHash)
	c.OptionalString("program", &r.program)
	c.OptionalString("title", &r.title)
	c.OptionalNumber("left", &remaining, 1<<48)
	r.gpus, r.remainingSince, r.kind = int(gpus), int64(remaining), cmp.Or(kind, Task)
}

func (r record) appendTo(out []byte) []byte { return rawjson.Encode(out, r.members) }

// processes reads or writes a list of pairs: process id and start time.
func processes(c *rawjson.Codec, key string, list *[]process) {
	c.Member(key, rawjson.Array,
		func(v rawjson.Value) (err error) {
			*list, err = decodeProcesses(key, v)
			return err
		},
		func(out []byte) []byte { return appendProcesses(out, *list) })
}

func decodeProcesses(key string, calls rawjson.Value) (list []process, err error) {
	if calls.Len() > maxCalls {
		return nil, fmt.Errorf("%s are %d, more than %d", key, calls.Len(), maxCalls)
	}
	for call := range calls.Elements() {
		var pair [2]uint64
		if call.Len() != len(pair) {
			return nil, fmt.Errorf("%s: %s is not a pair of numbers", key, call.Raw())
		}
		i := 0
		for n := range call.Elements() {
			if pair[i], err = n.Whole(1<<63 - 1); err != nil {
				return nil, err
			}
			i++
		}
		if pair[0] < 1 || pair[0] > 1<<31-1 {
			return nil, fmt.Errorf("%s: %d is not a process id", key, pair[0])
		}
		list = append(list, process{int(pair[0]), pair[1]})
	}
	return list, nil
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
	var r record
	err = rawjson.Decode(doc.Root(), r.members)
	switch {
	case err != nil:
	case !slices.Contains([]Kind{Task, Container, Pod, Claimed, Run}, r.kind):
		err = fmt.Errorf("kind is %q", r.kind)
	case r.phase != ended && (r.kind == Task && r.phase != created && r.phase != entered || r.kind != Task &&
		r.phase != holding):
		err = fmt.Errorf("phase is %q", r.phase)
	case r.container == "" || r.boot == "" || (r.kind == Task || r.kind == Container) && (r.pidFile == "" || r.cgroup == ""):
		err = errors.New("it lacks container, boot, pid_file or cgroup")
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}
