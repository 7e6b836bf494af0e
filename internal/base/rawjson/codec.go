package rawjson

import (
	"strconv"
	"time"
)

// Codec reads or writes the members of an object. A type passes each of its members to a
// Codec in one function for both directions, so that a file's format is declared once. It
// uses no reflection, because the wrapper reads and writes such files at each call of runc.
type Codec struct {
	from    Value
	reading bool
	err     error // the first one

	out   []byte
	comma bool
}

// Encode appends an object with these members to out.
func Encode(out []byte, members func(*Codec)) []byte {
	c := Codec{out: append(out, '{')}
	members(&c)
	return append(c.out, '}')
}

// Decode reads these members of an object, and ignores others. Missing ones become zero. It
// returns the first error.
func Decode(v Value, members func(*Codec)) error {
	c := Codec{from: v, reading: true}
	members(&c)
	return c.err
}

// Reading reports whether members are read.
func (c *Codec) Reading() bool { return c.reading }

// Fail makes the codec return an error, unless it has one.
func (c *Codec) Fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// key writes a key, which needs no escapes.
func (c *Codec) key(key string) {
	if c.comma {
		c.out = append(c.out, ',')
	}
	c.comma = true
	c.out = append(c.out, `"`+key+`":`...)
}

// Member reads or writes a member of any type.
func (c *Codec) Member(key string, kind Kind, read func(Value) error, write func(out []byte) []byte) {
	if !c.reading {
		c.key(key)
		c.out = write(c.out)
		return
	}
	v, err := c.from.Member(key, kind)
	if err == nil {
		err = read(v)
	}
	c.Fail(err)
}

// String is a member with a text.
func (c *Codec) String(key string, s *string) {
	if !c.reading {
		c.key(key)
		c.out = AppendString(c.out, *s)
		return
	}
	var err error
	*s, err = c.from.StringOf(key)
	c.Fail(err)
}

// OptionalString is a String that is not written if it is empty.
func (c *Codec) OptionalString(key string, s *string) {
	if c.reading || *s != "" {
		c.String(key, s)
	}
}

// Strings is a member with a list of texts.
func (c *Codec) Strings(key string, list *[]string) {
	if !c.reading {
		c.key(key)
		c.out = AppendStrings(c.out, *list)
		return
	}
	var err error
	*list, err = c.from.Strings(key)
	c.Fail(err)
}

// Number is a member with a whole number from 0 to limit.
func (c *Codec) Number(key string, n *uint64, limit uint64) {
	if !c.reading {
		c.key(key)
		c.out = strconv.AppendUint(c.out, *n, 10)
		return
	}
	var err error
	*n, err = c.from.NumberOf(key, limit)
	c.Fail(err)
}

// OptionalNumber is a Number that is not written if it is 0.
func (c *Codec) OptionalNumber(key string, n *uint64, limit uint64) {
	if c.reading || *n != 0 {
		c.Number(key, n, limit)
	}
}

// Millis is a member with a time in milliseconds, at most in the year 10889.
func (c *Codec) Millis(key string, t *time.Time) {
	if !c.reading {
		c.key(key)
		c.out = strconv.AppendInt(c.out, t.UnixMilli(), 10)
		return
	}
	n, err := c.from.NumberOf(key, 1<<48)
	c.Fail(err)
	*t = time.UnixMilli(int64(n))
}

// OptionalBool is a member that is not written if it is false.
func (c *Codec) OptionalBool(key string, b *bool) {
	if c.reading || *b {
		c.Member(key, Bool,
			func(v Value) error { *b = string(v.Raw()) == "true"; return nil },
			func(out []byte) []byte { return append(out, "true"...) })
	}
}

// OptionalObject is a member with an object. It is not written if it is empty, and not read
// if it is missing.
func (c *Codec) OptionalObject(key string, empty bool, members func(*Codec)) {
	if c.reading || !empty {
		c.Member(key, Object,
			func(v Value) error {
				if v.None() {
					return nil
				}
				return Decode(v, members)
			},
			func(out []byte) []byte { return Encode(out, members) })
	}
}

// OptionalList is a List that is not written if it is empty.
func OptionalList[T any](c *Codec, key string, list *[]T, members func(*Codec, *T)) {
	if c.reading || len(*list) > 0 {
		List(c, key, list, members)
	}
}

// List is a member with a list of objects.
func List[T any](c *Codec, key string, list *[]T, members func(*Codec, *T)) {
	c.Member(key, Array,
		func(v Value) error {
			*list = nil
			for e := range v.Elements() {
				var one T
				if err := Decode(e, func(c *Codec) { members(c, &one) }); err != nil {
					return err
				}
				*list = append(*list, one)
			}
			return nil
		},
		func(out []byte) []byte {
			out = append(out, '[')
			for i := range *list {
				if i > 0 {
					out = append(out, ',')
				}
				out = Encode(out, func(c *Codec) { members(c, &(*list)[i]) })
			}
			return append(out, ']')
		})
}
