package clockpin

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"concourse-ci-machine/internal/base/rawjson"
)

// Record describes a pinned GPU.
type Record struct {
	Task
	GPU   string // of its lease, and the name of its file
	Boot  string // /proc/sys/kernel/random/boot_id
	Level Level  // that was set; it was auto before
	Since time.Time

	// Results of looks, see Judge.
	Looked       time.Time // last; zero for never
	Looks        int
	InvalidSpans spans    // times in which measurements are not valid
	Counters     Counters // at the last look
	Busy         bool     // at the last look
	Clocks       []Clock  // while it was busy
}

// Counters has the firmware's ticks under each limit, and of all time, since some moment.
type Counters []Counter

// Counter holds one of them. The ticks of all time have no reason.
type Counter struct {
	Reason string
	Ticks  uint64
}

func (c Counters) ticksOf(reason string) (ticks uint64, ok bool) {
	for _, one := range c {
		if one.Reason == reason {
			return one.Ticks, true
		}
	}
	return 0, false
}

func (r *Record) appendTo(out []byte) []byte {
	out = rawjson.AppendString(append(out, `{"container":`...), r.Container)
	out = rawjson.AppendString(append(out, `,"bundle":`...), r.Bundle)
	out = rawjson.AppendString(append(out, `,"boot":`...), r.Boot)
	out = rawjson.AppendString(append(out, `,"level":`...), string(r.Level))
	out = strconv.AppendInt(append(out, `,"since":`...), r.Since.UnixMilli(), 10)
	if r.Looks > 0 {
		out = strconv.AppendInt(append(out, `,"looked":`...), r.Looked.UnixMilli(), 10)
		out = strconv.AppendInt(append(out, `,"looks":`...), int64(r.Looks), 10)
	}
	if r.Busy {
		out = append(out, `,"busy":1`...)
	}
	out = appendList(out, "wrong", r.InvalidSpans, func(out []byte, s Span) []byte {
		out = fmt.Appendf(out, `{"from":%d,"to":%d,"why":`, s.From.UnixMilli(), s.To.UnixMilli())
		return append(rawjson.AppendString(out, s.Reason), '}')
	})
	out = appendList(out, "clocks", r.Clocks, func(out []byte, c Clock) []byte {
		out = rawjson.AppendString(append(out, `{"domain":`...), c.Domain)
		return fmt.Appendf(out, `,"first":%d,"min":%d,"max":%d}`, c.First, c.Min, c.Max)
	})
	if len(r.Counters) > 0 {
		out = append(out, `,"counters":{`...)
		for i, c := range r.Counters {
			if i > 0 {
				out = append(out, ',')
			}
			out = strconv.AppendUint(append(rawjson.AppendString(out, c.Reason), ':'), c.Ticks, 10)
		}
		out = append(out, '}')
	}
	return append(out, '}')
}

// appendList adds a member that is a list, unless it is empty.
func appendList[T any](out []byte, key string, list []T, one func([]byte, T) []byte) []byte {
	for i, v := range list {
		if i == 0 {
			out = append(append(append(out, `,"`...), key...), `":[`...)
		} else {
			out = append(out, ',')
		}
		out = one(out, v)
	}
	if len(list) > 0 {
		out = append(out, ']')
	}
	return out
}

// mostTime, mostTicks and mostMHz bound the numbers in a record.
const mostTime, mostTicks, mostMHz = 1 << 48, 1<<63 - 1, 1 << 20

// decoder reads a record and holds the first error.
type decoder struct{ failed error }

func (d *decoder) note(err error) {
	if d.failed == nil {
		d.failed = err
	}
}

func (d *decoder) text(v rawjson.Value, key string) string {
	s, err := v.StringOf(key)
	d.note(err)
	return s
}

func (d *decoder) number(v rawjson.Value, key string, most uint64) uint64 {
	n, err := v.NumberOf(key, most)
	d.note(err)
	return n
}

func (d *decoder) time(v rawjson.Value, key string) time.Time {
	return time.UnixMilli(int64(d.number(v, key, mostTime)))
}

func (d *decoder) member(v rawjson.Value, key string, k rawjson.Kind) rawjson.Value {
	member, err := v.Of(key, k)
	d.note(err)
	return member
}

// decode reads a file's content. It returns nil for an empty one.
func decode(data []byte) (*Record, error) {
	if data = bytes.TrimRight(data, " \n"); len(data) == 0 {
		return nil, nil
	}
	doc, err := rawjson.Parse(data)
	if err != nil {
		return nil, err
	}
	var d decoder
	root := doc.Root()
	r := &Record{Task: Task{d.text(root, "container"), d.text(root, "bundle")}, Boot: d.text(root, "boot"),
		Level: Level(d.text(root, "level")),
		Since: d.time(root, "since"), Looks: int(d.number(root, "looks", 1<<31-1)), Busy: d.number(root, "busy", 1) > 0}
	if r.Looks > 0 {
		r.Looked = d.time(root, "looked")
	}
	for v := range d.member(root, "wrong", rawjson.Array).Elements() {
		r.InvalidSpans = append(r.InvalidSpans, Span{d.time(v, "from"), d.time(v, "to"), d.text(v, "why")})
	}
	for v := range d.member(root, "clocks", rawjson.Array).Elements() {
		mhz := func(key string) int { return int(d.number(v, key, mostMHz)) }
		r.Clocks = append(r.Clocks, Clock{d.text(v, "domain"), mhz("first"), mhz("min"), mhz("max")})
	}
	for reason, v := range d.member(root, "counters", rawjson.Object).Members() {
		n, err := v.Whole(mostTicks)
		d.note(err)
		r.Counters = append(r.Counters, Counter{reason, n})
	}
	d.note(r.Level.Check())
	if r.Container == "" || r.Boot == "" {
		d.note(errors.New("it lacks container or boot"))
	}
	if d.failed != nil {
		return nil, d.failed
	}
	return r, nil
}
