package baseline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// kind names the type of a JSON value.
type kind int

const (
	null kind = iota
	boolean
	number
	text
	array
	object
)

// value holds JSON in its original form. It keeps the order of members, and also duplicates,
// which encoding/json would drop.
type value struct {
	kind    kind
	text    string // content of a string, or original text of a number or boolean
	items   []value
	members []member
}

type member struct {
	key   string
	value value
}

// get returns a member and the number of its occurrences.
func (v value) get(key string) (found value, n int) {
	for _, m := range v.members {
		if m.key == key {
			found = m.value
			n++
		}
	}
	return found, n
}

// String describes the value in an error.
func (v value) String() string {
	switch v.kind {
	case null:
		return "null"
	case text:
		return "the string " + quoted(short(v.text))
	case array:
		return "a list"
	case object:
		return "an object"
	}
	return short(v.text)
}

// maxDepth bounds the nesting of values.
const maxDepth = 100

// parser reads one JSON document and tracks its position.
type parser struct {
	data []byte
	dec  *json.Decoder
	path []string // keys, and numbers or names of list items
}

// parseTree parses the only JSON value of data. Its error has the position.
func parseTree(data []byte) (value, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // some editors' mark of UTF-8
	if len(bytes.TrimSpace(data)) == 0 {
		return value{}, errors.New("it is empty")
	}
	p := &parser{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	v, err := p.value()
	if err == nil {
		if _, after := p.dec.Token(); after != io.EOF {
			err = errors.New("something follows its end")
		}
	}
	if err != nil {
		return value{}, p.where(err)
	}
	return v, nil
}

// errNaN holds Python's output for a value that is not a number.
type errNaN string

func (e errNaN) Error() string { return "is " + string(e) + "; want a number" }

// where adds the path to an error.
func (p *parser) where(err error) error {
	path := p.path
	if len(path) > 1 && p.isContainer(path[0]) {
		path = path[1:] // "examples: example 2" adds nothing to "example 2"
	}
	var nan errNaN
	switch {
	case len(path) == 0 && errors.As(err, &nan):
		return fmt.Errorf("it %w", err)
	case len(path) == 0:
		return err
	case errors.As(err, &nan):
		return fmt.Errorf("%s %w", strings.Join(path, ": "), err)
	}
	return fmt.Errorf("%s: %w", strings.Join(path, ": "), err)
}

// isContainer reports whether a key contains the examples.
func (p *parser) isContainer(key string) bool { return key == "examples" || key == "results" }

// label names a key below the path for a person.
func (p *parser) label(key string) string {
	switch {
	case len(p.path) == 1 && p.isContainer(p.path[0]):
		return "example " + quoted(short(key))
	case known[key]:
		return key
	}
	return quoted(short(key))
}

const numbered = "example number "

// item names an item of a list.
func (p *parser) item(n int) string {
	if len(p.path) == 0 || len(p.path) == 1 && p.isContainer(p.path[0]) {
		return fmt.Sprint(numbered, n)
	}
	return fmt.Sprint("item ", n)
}

func (p *parser) value() (value, error) {
	start := p.dec.InputOffset()
	token, err := p.dec.Token()
	if err != nil {
		return value{}, p.explain(start, err)
	}
	switch t := token.(type) {
	case nil:
		return value{}, nil
	case bool:
		return value{kind: boolean, text: fmt.Sprint(t)}, nil
	case json.Number:
		return value{kind: number, text: t.String()}, nil
	case string:
		return value{kind: text, text: t}, nil
	}
	if len(p.path) >= maxDepth {
		return value{}, fmt.Errorf("it is more than %d levels deep", maxDepth)
	}
	if token == json.Delim('[') {
		return p.array()
	}
	return p.object()
}

func (p *parser) array() (value, error) {
	v := value{kind: array}
	for p.dec.More() {
		p.path = append(p.path, p.item(len(v.items)+1))
		item, err := p.value()
		if err != nil {
			return v, err
		}
		p.path = p.path[:len(p.path)-1]
		v.items = append(v.items, item)
	}
	return v, p.end()
}

func (p *parser) object() (value, error) {
	v := value{kind: object}
	for p.dec.More() {
		start := p.dec.InputOffset()
		token, err := p.dec.Token()
		if err != nil {
			return v, p.explain(start, err)
		}
		key, _ := token.(string) // the decoder accepts no other key
		p.path = append(p.path, p.label(key))
		m, err := p.value()
		if err != nil {
			return v, err
		}
		p.path = p.path[:len(p.path)-1]
		if n := len(p.path); key == "name" && m.kind == text && n > 0 && strings.HasPrefix(p.path[n-1], numbered) {
			p.path[n-1] = "example " + quoted(short(m.text))
		}
		v.members = append(v.members, member{key, m})
	}
	return v, p.end()
}

// known are the keys that are not names of examples.
var known = map[string]bool{"examples": true, "results": true, "name": true, "status": true, "duration_s": true,
	"peak_memory_mb": true}

// end reads the closing bracket.
func (p *parser) end() error {
	start := p.dec.InputOffset()
	_, err := p.dec.Token()
	if err != nil {
		return p.explain(start, err)
	}
	return nil
}

// explain describes why the decoder stopped after start. Python writes NaN and Infinity,
// which JSON does not have.
func (p *parser) explain(start int64, err error) error {
	rest := strings.TrimLeft(string(p.data[start:min(start+80, int64(len(p.data)))]), " \t\r\n:,")
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		if strings.HasPrefix(rest, word) {
			return errNaN(word)
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends in the middle")
	}
	before := p.data[:min(p.dec.InputOffset(), int64(len(p.data)))]
	return fmt.Errorf("it is not JSON: line %d: %w", 1+bytes.Count(before, []byte("\n")), err)
}
