package rawjson

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// Edit collects changes of a document with an object as root.
type Edit struct {
	doc     *Doc
	root    *Node
	changes []change
}

// change replaces the bytes from start to end with text.
type change struct {
	start, end int
	text       []byte
}

// Node represents an existing or new object in an Edit.
type Node struct {
	edit     *Edit
	value    Value // Absent or Null for a new object
	key      string
	children []*Node
	added    [][]byte // new members
}

// NewEdit starts an Edit of a document.
func NewEdit(d *Doc) (*Edit, error) {
	if d.Root().Kind() != Object {
		return nil, fmt.Errorf("it is %s, not an object", d.Root().Kind())
	}
	e := &Edit{doc: d}
	e.root = &Node{edit: e, value: d.Root()}
	return e, nil
}

// Root returns the document's object.
func (e *Edit) Root() *Node { return e.root }

// At returns the object at a path of keys. Missing objects are created when a member is
// added.
func (n *Node) At(keys ...string) (*Node, error) {
	for _, key := range keys {
		i := slices.IndexFunc(n.children, func(c *Node) bool { return c.key == key })
		if i < 0 {
			value, err := n.value.Member(key, Object)
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

// Strings returns the list at key as it was before any change.
func (n *Node) Strings(key string) ([]string, error) { return n.value.Strings(key) }

// Append appends elements, in JSON, to the list at key. It first removes existing elements
// with the same bytes, and those that drop accepts; drop may be nil. The other elements
// keep their order. Append may be called once for a list.
func (n *Node) Append(key string, elements [][]byte, drop func(Value) bool) error {
	list, err := n.value.Member(key, Array)
	if err != nil {
		return err
	}
	all := make([][]byte, 0, list.Len())
	dropped := false
	for v := range list.Elements() {
		present := func(e []byte) bool { return bytes.Equal(e, v.Raw()) }
		if slices.ContainsFunc(elements, present) || drop != nil && drop(v) {
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

// join joins parts with commas, between before and after.
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

// put adds a member, or replaces null.
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

// insert inserts parts before the closing bracket of a list or an object.
func (e *Edit) insert(into Value, others bool, parts [][]byte) {
	before := ""
	if others {
		before = ","
	}
	at := int(e.doc.nodes[into.at].end) - 1
	e.changes = append(e.changes, change{at, at, join(before, parts, "")})
}

// finish converts the additions to a node and its children to changes.
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

// Parts returns the changed document in pieces, or none without changes. It may be called
// once.
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
