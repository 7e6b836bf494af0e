package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
)

// Value points to one value of a document. The zero Value is Absent.
type Value struct {
	doc *Doc
	at  int
}

// Root returns the document's value.
func (d *Doc) Root() Value { return Value{d, 0} }

// Kind returns the value's kind.
func (v Value) Kind() Kind {
	if v.doc == nil {
		return Absent
	}
	return v.doc.nodes[v.at].kind
}

// None reports whether the value is absent or null.
func (v Value) None() bool { return v.Kind() <= Null }

// Raw returns the value's bytes.
func (v Value) Raw() []byte {
	if v.doc == nil {
		return nil
	}
	n := v.doc.nodes[v.at]
	return v.doc.data[n.start:n.end]
}

// As returns an error if the value is neither None nor of this kind.
func (v Value) As(k Kind) error {
	if v.None() || v.Kind() == k {
		return nil
	}
	return fmt.Errorf("it is %s, not %s", v.Kind(), k)
}

// Elements iterates over a list. Other kinds have no elements.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.Kind() != Array {
			return
		}
		for at, end := v.at+1, int(v.doc.nodes[v.at].next); at < end; at = int(v.doc.nodes[at].next) {
			if !yield(Value{v.doc, at}) {
				return
			}
		}
	}
}

// Len returns the number of a list's elements, and 0 for other kinds.
func (v Value) Len() (n int) {
	if v.Kind() != Array {
		return 0
	}
	nodes := v.doc.nodes
	for at, end := v.at+1, int(nodes[v.at].next); at < end; at = int(nodes[at].next) {
		n++
	}
	return n
}

// Members iterates over the keys and values of an object. Other kinds have none.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.Kind() != Object {
			return
		}
		for at, end := v.at+1, int(v.doc.nodes[v.at].next); at < end; at = int(v.doc.nodes[at+1].next) {
			if !yield(Value{v.doc, at}.Text(), Value{v.doc, at + 1}) {
				return
			}
		}
	}
}

// Get returns a member of an object, or Absent. A key that occurs twice, or with other
// letter case, is an error. Go programs read the last such key in any case, and would see
// another value than this package.
func (v Value) Get(key string) (Value, error) {
	var found Value
	if err := v.As(Object); err != nil || v.Kind() != Object {
		return found, err
	}
	nodes := v.doc.nodes
	for at, end := v.at+1, int(nodes[v.at].next); at < end; at = int(nodes[at+1].next) {
		name := v.doc.text(at)
		same, sameLetters := string(name) == key, bytes.EqualFold(name, []byte(key))
		switch {
		case !sameLetters:
		case !same:
			return Value{}, fmt.Errorf("key %s must be written %q", Value{v.doc, at}.Raw(), key)
		case found.doc != nil:
			return Value{}, fmt.Errorf("key %q is duplicate", key)
		default:
			found = Value{v.doc, at + 1}
		}
	}
	return found, nil
}

// Member calls Get and checks the member's kind. Its errors name the key.
func (v Value) Member(key string, k Kind) (Value, error) {
	member, err := v.Get(key)
	if err == nil {
		if err = member.As(k); err != nil {
			err = fmt.Errorf("%s: %w", key, err)
		}
	}
	return member, err
}

// Text returns a string's content, and "" for other kinds.
func (v Value) Text() string {
	if v.Kind() != String {
		return ""
	}
	return string(v.doc.text(v.at))
}

// text returns the decoded string at a node. The caller must not change it.
func (d *Doc) text(at int) []byte {
	n := d.nodes[at]
	raw := d.data[n.start+1 : n.end-1]
	if n.plain {
		return raw
	}
	return unquote(raw)
}

// Strings returns the list at key, which must contain only strings.
func (v Value) Strings(key string) ([]string, error) {
	list, err := v.Member(key, Array)
	if err != nil {
		return nil, err
	}
	if list.Len() == 0 {
		return nil, nil
	}
	texts := make([]string, 0, list.Len())
	for e := range list.Elements() {
		if e.Kind() != String {
			return nil, fmt.Errorf("%s: one of them is %s, not a string", key, e.Kind())
		}
		texts = append(texts, e.Text())
	}
	return texts, nil
}

// StringOf returns the string at key, or "".
func (v Value) StringOf(key string) (string, error) {
	member, err := v.Member(key, String)
	return member.Text(), err
}

// NumberOf returns the whole number at key, from 0 to limit, or 0 if missing.
func (v Value) NumberOf(key string, limit uint64) (uint64, error) {
	member, err := v.Member(key, Number)
	if err != nil || member.None() {
		return 0, err
	}
	n, err := member.Whole(limit)
	if err != nil {
		err = fmt.Errorf("%s: %w", key, err)
	}
	return n, err
}

var errWhole = errors.New("not a whole number")

// Whole returns a number without sign, fraction and exponent, at most limit.
func (v Value) Whole(limit uint64) (n uint64, err error) {
	if v.Kind() != Number {
		return 0, fmt.Errorf("it is %s, not a number", v.Kind())
	}
	for _, c := range v.Raw() {
		if !isDigit(c) {
			return 0, fmt.Errorf("%s is %w", v.Raw(), errWhole)
		}
		d := uint64(c - '0')
		if n > (limit-d)/10 || d > limit {
			return 0, fmt.Errorf("%s is more than %d", v.Raw(), limit)
		}
		n = n*10 + d
	}
	return n, nil
}
