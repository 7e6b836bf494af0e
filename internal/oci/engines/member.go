package engines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// member locates one member of an object: data[start:value] is its key and colon,
// data[value:end] its value.
type member struct {
	key               string
	start, value, end int
}

// object reads the members of the object that begins at data[at].
func object(data []byte, at int) (list []member, end int, err error) {
	dec := json.NewDecoder(bytes.NewReader(data[at:]))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, 0, errors.Join(errors.New("it is not an object"), err)
	}
	for dec.More() {
		before := at + int(dec.InputOffset())
		key, err := dec.Token()
		if err != nil {
			return nil, 0, err
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, 0, err
		}
		m := member{key: key.(string), start: before + bytes.IndexByte(data[before:], '"'),
			end: at + int(dec.InputOffset())}
		m.value = m.end - len(raw)
		if slices.ContainsFunc(list, func(o member) bool { return o.key == m.key }) {
			return nil, 0, fmt.Errorf("key %q is duplicate", m.key)
		}
		list = append(list, m)
	}
	_, err = dec.Token()
	return list, at + int(dec.InputOffset()), err
}

// location holds the end of a path of keys: the objects on the path, as far as they exist.
type location struct {
	objects [][]member
	starts  []int // of each object
	ends    []int
	found   *member // nil if the last key is missing
}

func find(data []byte, path []string) (p location, err error) {
	at := len(data) - len(bytes.TrimLeft(data, " \t\r\n"))
	for i, key := range path {
		list, end, err := object(data, at)
		if err != nil {
			return p, fmt.Errorf("%s: %w", strings.Join(append([]string{"the file"}, path[:i]...), ": "), err)
		}
		p.objects, p.starts, p.ends = append(p.objects, list), append(p.starts, at), append(p.ends, end)
		k := slices.IndexFunc(list, func(m member) bool { return m.key == key })
		if k < 0 {
			return p, nil
		}
		if i == len(path)-1 {
			p.found = &list[k]
		}
		at = list[k].value
	}
	return p, nil
}

// valueAt returns the value at a path as it is written, and "" if it is missing.
func valueAt(data []byte, path []string) (string, error) {
	p, err := find(data, path)
	if err != nil || p.found == nil {
		return "", err
	}
	return string(data[p.found.value:p.found.end]), nil
}

// setValue sets a value at a path. An existing value is replaced. A new one is added as the
// last of its object, with the indentation of its neighbours.
func setValue(data []byte, path []string, value string) ([]byte, error) {
	p, err := find(data, path)
	if err != nil {
		return nil, err
	}
	if p.found != nil {
		return splice(data, p.found.value, p.found.end, value), nil
	}
	depth := len(p.objects) - 1
	list, end := p.objects[depth], p.ends[depth]-1
	outer, step := indents(data, p, depth)
	text := ""
	rest := path[depth:]
	for i, key := range rest {
		text += quote(key) + ": "
		if i < len(rest)-1 {
			text += "{" + deeper(outer, step, i+2)
		}
	}
	text += value
	for i := len(rest) - 2; i >= 0; i-- {
		text += deeper(outer, step, i+1) + "}"
	}
	if len(list) > 0 {
		at := list[len(list)-1].end
		return splice(data, at, at, ","+deeper(outer, step, 1)+text), nil
	}
	return splice(data, p.starts[depth]+1, end, deeper(outer, step, 1)+text+deeper(outer, step, 0)), nil
}

func quote(key string) string {
	text, _ := json.Marshal(key) // strings never fail
	return string(text)
}

// indents returns the indentation of the closing bracket of the object at that depth, and
// the addition for each depth. An object on one line has neither.
func indents(data []byte, p location, depth int) (outer, step string) {
	root := p.objects[0]
	if len(root) == 0 {
		return "\n", "    "
	}
	before := string(data[p.starts[0]+1 : root[0].start])
	line := strings.LastIndexByte(before, '\n')
	if line < 0 {
		return "", ""
	}
	step = before[line+1:]
	return "\n" + strings.Repeat(step, depth), step
}

func deeper(outer, step string, n int) string { return outer + strings.Repeat(step, n) }

// dropValue removes the member at a path, and objects on the path that are empty without
// it, except the outermost.
func dropValue(data []byte, path []string) ([]byte, error) {
	p, err := find(data, path)
	if err != nil || p.found == nil {
		return data, err
	}
	depth := len(p.objects) - 1
	list := p.objects[depth]
	i := slices.IndexFunc(list, func(m member) bool { return m.start == p.found.start })
	switch {
	case len(list) == 1 && depth > 0:
		return dropValue(data, path[:depth])
	case len(list) == 1:
		return splice(data, p.starts[0]+1, p.ends[0]-1, ""), nil
	case i > 0:
		return splice(data, list[i-1].end, list[i].end, ""), nil
	}
	return splice(data, list[0].start, list[1].start, ""), nil
}

func splice(data []byte, from, to int, text string) []byte {
	return slices.Concat(data[:from], []byte(text), data[to:])
}

// sameJSON compares values and ignores their formatting.
func sameJSON(a, b string) bool {
	var left, right any
	return json.Unmarshal([]byte(a), &left) == nil && json.Unmarshal([]byte(b), &right) == nil && equalJSON(left, right)
}

func equalJSON(a, b any) bool {
	left, errA := json.Marshal(a)
	right, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(left, right)
}
