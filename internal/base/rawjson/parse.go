// Package rawjson reads JSON in one pass and changes parts of it in place. All other bytes
// stay unchanged: unknown fields, 64-bit numbers, the order of keys. It accepts what
// encoding/json accepts, up to a depth of 100. It never decodes into Go structures by
// reflection, because for a program that runs for one millisecond this would cost more than
// its actual work.
package rawjson

import (
	"errors"
	"fmt"
)

// Kind names the type of a value.
type Kind uint8

// The kinds of JSON values. Absent is a missing value.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"absent", "null", "a boolean", "a number", "a string", "a list", "an object"}[k]
}

const (
	maxDepth = 100
	// maxValues bounds the memory for a small file, with 16 bytes for each value. The
	// config.json of a container has about 1000.
	maxValues = 1 << 20
)

// node describes one value. The values inside it follow directly. A key is a separate value
// before its member's.
type node struct {
	start, end uint32 // its bytes
	next       uint32 // the first node after all nodes inside
	kind       Kind
	plain      bool // a string without escapes, all of ASCII
}

// Doc holds a parsed document.
type Doc struct {
	data  []byte
	nodes []node
}

// Parse parses data, which must contain one JSON value and must not change while the Doc is
// in use.
func Parse(data []byte) (*Doc, error) {
	if uint64(len(data)) > 1<<31 {
		return nil, errors.New("JSON: too large")
	}
	// Compact JSON usually has at least 7 bytes for each value.
	p := parser{Doc{data: data, nodes: make([]node, 0, min(len(data)/7+16, maxValues))}}
	end, err := p.value(p.space(0), 0)
	if err != nil {
		return nil, err
	}
	if end = p.space(end); end != len(data) {
		return nil, p.bad(end, "the end")
	}
	return &p.Doc, nil
}

type parser struct{ Doc }

func (p *parser) bad(at int, want string) error {
	if at >= len(p.data) {
		return fmt.Errorf("it ends too early, at byte %d: want %s", at, want)
	}
	return fmt.Errorf("it is not JSON: byte %d is %q: want %s", at, p.data[at], want)
}

// space returns the index of the next byte that is not a blank.
func (p *parser) space(i int) int {
	for i < len(p.data) && (p.data[i] == ' ' || p.data[i] == '\n' || p.data[i] == '\t' || p.data[i] == '\r') {
		i++
	}
	return i
}

// value parses the value at i and returns its end.
func (p *parser) value(i, depth int) (end int, err error) {
	if i >= len(p.data) {
		return i, p.bad(i, "a value")
	}
	if depth > maxDepth {
		return i, fmt.Errorf("it nests deeper than %d levels, at byte %d", maxDepth, i)
	}
	if p.data[i] == '"' {
		return p.string(i)
	}
	if len(p.nodes) >= maxValues {
		return i, errMany()
	}
	at := len(p.nodes)
	p.nodes = append(p.nodes, node{start: uint32(i)})
	kind := Null
	switch c := p.data[i]; {
	case c == '{':
		kind = Object
		end, err = p.object(i, depth)
	case c == '[':
		kind = Array
		end, err = p.array(i, depth)
	case c == '-' || '0' <= c && c <= '9':
		kind = Number
		end, err = p.number(i)
	case c == 't':
		kind = Bool
		end, err = p.word(i, "true")
	case c == 'f':
		kind = Bool
		end, err = p.word(i, "false")
	case c == 'n':
		end, err = p.word(i, "null")
	default:
		return i, p.bad(i, "a value")
	}
	n := &p.nodes[at]
	n.end, n.next, n.kind = uint32(end), uint32(len(p.nodes)), kind
	return end, err
}

func errMany() error { return fmt.Errorf("it has more than %d values", maxValues) }

// string parses a string or a key. Most values are strings.
func (p *parser) string(i int) (int, error) {
	at := len(p.nodes)
	if at >= maxValues {
		return i, errMany()
	}
	end, plain, err := p.text(i)
	p.nodes = append(p.nodes, node{uint32(i), uint32(end), uint32(at + 1), String, plain})
	return end, err
}

func (p *parser) object(i, depth int) (int, error) {
	i = p.space(i + 1)
	if i < len(p.data) && p.data[i] == '}' {
		return i + 1, nil
	}
	for {
		if i >= len(p.data) || p.data[i] != '"' {
			return i, p.bad(i, "a key")
		}
		var err error
		if i, err = p.string(i); err != nil {
			return i, err
		}
		if i = p.space(i); i >= len(p.data) || p.data[i] != ':' {
			return i, p.bad(i, "a colon")
		}
		if i, err = p.value(p.space(i+1), depth+1); err != nil {
			return i, err
		}
		i = p.space(i)
		switch {
		case i < len(p.data) && p.data[i] == ',':
			i = p.space(i + 1)
		case i < len(p.data) && p.data[i] == '}':
			return i + 1, nil
		default:
			return i, p.bad(i, "a comma or }")
		}
	}
}

func (p *parser) array(i, depth int) (int, error) {
	i = p.space(i + 1)
	if i < len(p.data) && p.data[i] == ']' {
		return i + 1, nil
	}
	for {
		var err error
		if i, err = p.value(i, depth+1); err != nil {
			return i, err
		}
		i = p.space(i)
		switch {
		case i < len(p.data) && p.data[i] == ',':
			i = p.space(i + 1)
		case i < len(p.data) && p.data[i] == ']':
			return i + 1, nil
		default:
			return i, p.bad(i, "a comma or ]")
		}
	}
}
