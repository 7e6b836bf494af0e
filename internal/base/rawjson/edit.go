package rawjson

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// Edit collects changes of one document, whose root is an object.
type Edit struct {
	doc     *Doc
	root    *Node
	changes []change
}

// change puts text in the place of the bytes from start to end.
type change struct {
	start, end int
	text       []byte
}

// Node is an object to be changed, there already or not.
type Node struct {
	edit     *Edit
	value    Value // Absent or Null for one to be made
	key      string
	children []*Node
	added    [][]byte // members
}

// NewEdit starts to change a document.
func NewEdit(d *Doc) (*Edit, error) {
	if d.Root().Kind() != Object {
		return nil, fmt.Errorf("it is %s, not an object", d.Root().Kind())
	}
	e := &Edit{doc: d}
	e.root = &Node{edit: e, value: d.Root()}
	return e, nil
}

// Root is the document's object.
func (e *Edit) Root() *Node { return e.root }

// At is the object at a path of keys. What of it is not there is made when
// something is put into it.
func (n *Node) At(keys ...string) (*Node, error) {
	for _, key := range keys {
		i := slices.IndexFunc(n.children, func(c *Node) bool { return c.key == key })
		if i < 0 {
			value, err := n.value.Of(key, Object)
			if err != nil {
				return nil, err
			}
			i = len(n.children)
			n.children = append(n.children, &Node{edit: n.edit, key: key, value: value})
		}
		n = n.children[i]
	}
	return n, nil
}

// Strings are those of the list at key as they were before any change.
func (n *Node) Strings(key string) ([]string, error) { return n.value.Strings(key) }

// Append puts elements, in JSON, at the end of the list at key. Those that are
// there already in the same bytes are taken out first, and what drop says; it may
// be nil. The others stay in their order. It may be called once for a list.
func (n *Node) Append(key string, elements [][]byte, drop func(Value) bool) error {
	list, err := n.value.Of(key, Array)
	if err != nil {
		return err
	}
	all := make([][]byte, 0, list.Len())
	dropped := false
	for v := range list.Elements() {
		again := func(e []byte) bool { return bytes.Equal(e, v.Raw()) }
		if slices.ContainsFunc(elements, again) || drop != nil && drop(v) {
			dropped = true
		} else {
			all = append(all, v.Raw())
		}
	}
	switch {
	case len(elements) == 0 && !dropped:
	case list.None():
		n.put(key, list, join("[", elements, "]"))
	case dropped:
		n.edit.replace(list, join("[", append(all, elements...), "]"))
	default:
		n.edit.insert(list, len(all) > 0, elements)
	}
	return nil
}

// join puts commas between parts, and something before and after them.
func join(before string, parts [][]byte, after string) []byte {
	size := len(before) + len(after)
	for _, p := range parts {
		size += len(p) + 1
	}
	out := append(make([]byte, 0, size), before...)
	for i, p := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, p...)
	}
	return append(out, after...)
}

// put makes a member, or fills one that is null.
func (n *Node) put(key string, old Value, text []byte) {
	if old.Kind() == Null {
		n.edit.replace(old, text)
		return
	}
	n.added = append(n.added, append(append(AppendString(nil, key), ':'), text...))
}

func (e *Edit) replace(old Value, text []byte) {
	span := e.doc.nodes[old.at]
	e.changes = append(e.changes, change{int(span.start), int(span.end), text})
}

// insert puts parts before the closing bracket of a list or an object.
func (e *Edit) insert(into Value, others bool, parts [][]byte) {
	before := ""
	if others {
		before = ","
	}
	at := int(e.doc.nodes[into.at].end) - 1
	e.changes = append(e.changes, change{at, at, join(before, parts, "")})
}

// finish turns what was added to a node, and below it, into changes.
func (n *Node) finish() {
	for _, c := range n.children {
		c.finish()
		if c.value.None() && len(c.added) > 0 {
			n.put(c.key, c.value, join("{", c.added, "}"))
		}
	}
	if !n.value.None() && len(n.added) > 0 {
		others := int(n.edit.doc.nodes[n.value.at].next) > n.value.at+1
		n.edit.insert(n.value, others, n.added)
	}
}

// Parts are the changed document in pieces, none where nothing changes. It may be
// called once.
func (e *Edit) Parts() (parts [][]byte) {
	e.root.finish()
	if len(e.changes) == 0 {
		return nil
	}
	slices.SortFunc(e.changes, func(a, b change) int { return cmp.Compare(a.start, b.start) })
	at := 0
	for _, c := range e.changes {
		parts = append(parts, e.doc.data[at:c.start], c.text)
		at = c.end
	}
	return append(parts, e.doc.data[at:])
}
