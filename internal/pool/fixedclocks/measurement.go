package fixedclocks

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// Measurement records the fixed clocks of one GPU for one task.
type Measurement struct {
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

// mostTicks and mostMHz bound the numbers in a record.
const mostTicks, mostMHz = 1<<63 - 1, 1 << 20

// members declares the format of a record.
func (r *Measurement) members(c *rawjson.Codec) {
	looks, busy := uint64(r.Looks), uint64(0)
	if r.Busy {
		busy = 1
	}
	c.Version(1)
	c.String("container", &r.Container)
	c.String("bundle", &r.Bundle)
	c.String("boot", &r.Boot)
	c.String("level", (*string)(&r.Level))
	c.Millis("since", &r.Since)
	if looks > 0 { // on writing
		c.Millis("looked", &r.Looked)
	}
	c.OptionalNumber("looks", &looks, 1<<31-1)
	if c.Reading() && looks > 0 { // otherwise the time stays zero
		c.Millis("looked", &r.Looked)
	}
	c.OptionalNumber("busy", &busy, 1)
	rawjson.OptionalList(c, "invalid_spans", (*[]Span)(&r.InvalidSpans), func(c *rawjson.Codec, s *Span) {
		c.Millis("from", &s.From)
		c.Millis("to", &s.To)
		c.String("reason", &s.Reason)
	})
	rawjson.OptionalList(c, "clocks", &r.Clocks, func(c *rawjson.Codec, one *Clock) {
		c.String("domain", &one.Domain)
		megahertz(c, "first", &one.First)
		megahertz(c, "min", &one.Min)
		megahertz(c, "max", &one.Max)
	})
	if c.Reading() || len(r.Counters) > 0 {
		c.Member("counters", rawjson.Object, r.Counters.read, r.Counters.appendTo)
	}
	r.Looks, r.Busy = int(looks), busy > 0
}

func megahertz(c *rawjson.Codec, key string, mhz *int) {
	n := uint64(*mhz)
	c.Number(key, &n, mostMHz)
	*mhz = int(n)
}

func (all *Counters) read(v rawjson.Value) error {
	for reason, v := range v.Members() {
		n, err := v.Whole(mostTicks)
		if err != nil {
			return err
		}
		*all = append(*all, Counter{reason, n})
	}
	return nil
}

func (all *Counters) appendTo(out []byte) []byte {
	out = append(out, '{')
	for i, c := range *all {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendUint(append(rawjson.AppendString(out, c.Reason), ':'), c.Ticks, 10)
	}
	return append(out, '}')
}

func (r *Measurement) appendTo(out []byte) []byte { return rawjson.Encode(out, r.members) }

// decode reads a file's content. It returns nil for an empty one.
func decode(data []byte) (*Measurement, error) {
	if data = bytes.TrimRight(data, " \n"); len(data) == 0 {
		return nil, nil
	}
	doc, err := rawjson.Parse(data)
	if err != nil {
		return nil, err
	}
	var r Measurement
	if err := rawjson.Decode(doc.Root(), r.members); err != nil {
		return nil, err
	}
	if err := r.Level.Check(); err != nil {
		return nil, err
	}
	if r.Container == "" || r.Boot == "" {
		return nil, errors.New("it lacks container or boot")
	}
	return &r, nil
}
