package pin

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"concourse-ci-machine/internal/oci/rawjson"
)

// Record is what is known of a pinned GPU.
type Record struct {
	Task
	Boot  string // /proc/sys/kernel/random/boot_id
	Level Level  // that was set; before it was auto
	Since time.Time

	// What looks at it have found, see Judge.
	Looked   time.Time // last; zero for never
	Looks    int
	Why      string   // why what the task measures does not count; "" where nothing is known against it
	Counters Counters // at the last look
}

// Counters are the firmware's ticks under each limit, and of all time, since some moment.
type Counters []Counter

// Counter is one of them. Ticks of all time have no reason.
type Counter struct {
	Reason string
	Ticks  uint64
}

func (c Counters) of(reason string) (ticks uint64, ok bool) {
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
	if r.Why != "" {
		out = rawjson.AppendString(append(out, `,"why":`...), r.Why)
	}
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

// mostTime and mostTicks bound what a record is believed to have.
const mostTime, mostTicks = 1 << 48, 1<<63 - 1

// decode reads a file's content; nil is what it returns for a blank one.
func decode(data []byte) (*Record, error) {
	if data = bytes.TrimRight(data, " \n"); len(data) == 0 {
		return nil, nil
	}
	doc, err := rawjson.Parse(data)
	if err != nil {
		return nil, err
	}
	var failed []error
	keep := func(err error) {
		if err != nil {
			failed = append(failed, err)
		}
	}
	text := func(key string) string {
		s, err := doc.Root().StringOf(key)
		keep(err)
		return s
	}
	number := func(key string, most uint64) uint64 {
		n, err := doc.Root().NumberOf(key, most)
		keep(err)
		return n
	}
	r := &Record{Task: Task{text("container"), text("bundle")}, Boot: text("boot"), Level: Level(text("level")), Why: text("why"),
		Since: time.UnixMilli(int64(number("since", mostTime))), Looks: int(number("looks", 1<<31-1))}
	if r.Looks > 0 {
		r.Looked = time.UnixMilli(int64(number("looked", mostTime)))
	}
	counters, err := doc.Root().Of("counters", rawjson.Object)
	keep(err)
	if err == nil && !counters.None() {
		for reason, v := range counters.Members() {
			n, err := v.Whole(mostTicks)
			keep(err)
			r.Counters = append(r.Counters, Counter{reason, n})
		}
	}
	keep(r.Level.Check())
	if r.Container == "" || r.Boot == "" {
		keep(errors.New("it lacks container or boot"))
	}
	if len(failed) > 0 {
		return nil, failed[0]
	}
	return r, nil
}
