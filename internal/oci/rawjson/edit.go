package rawjson

import (
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
	added    []byte // members, with commas between
}

// NewEdit starts to change a document.
func NewEdit(d *Doc) (*Edit, error) {
	e := &Edit{doc: d}
	e.root = &Node{edit: e, value: d.Root()}
	if d.Root().Kind() != Object {
		return nil, fmt.Errorf("it is %s, not an object", d.Root().Kind())
	}
	return e, nil
}

// Root is the document's object.
func (e *Edit) Root() *Node { return e.root }

// Child is the object at key. It is made where there is none and something is
// put into it.
func (n *Node) Child(key string) (*Node, error) {
	for _, c := range n.children {
		if c.key == key {
			return c, nil
		}
	}
	c := &Node{edit: n.edit, key: key}
	if !n.value.None() {
		var err error
		if c.value, err = n.value.Of(key, Object); err != nil {
			return nil, err
		}
	}
	n.children = append(n.children, c)
	return c, nil
}

// Append puts elements, each JSON, at the end of the list at key, after taking
// out those that drop wants gone; nil takes out none. The others stay in their
// order. It may be called once for a list.
func (n *Node) Append(key string, elements [][]byte, drop func(Value) bool) error {
	list := Value{}
	if !n.value.None() {
		var err error
		if list, err = n.value.Of(key, Array); err != nil {
			return err
		}
	}
	if list.None() {
		if len(elements) > 0 {
			n.put(key, list, join("[", elements, ']'))
		}
		return nil
	}
	kept := make([][]byte, 0, list.Len()+len(elements))
	all := 0
	for v := range list.Elements() {
		if all++; drop == nil || !drop(v) {
			kept = append(kept, v.Raw())
		}
	}
	span := n.edit.doc.nodes[list.at]
	start, end := int(span.start), int(span.end)
	switch {
	case len(kept) < all:
		n.edit.change(start, end, join("[", append(kept, elements...), ']'))
	case len(elements) > 0:
		first := ""
		if all > 0 {
			first = ","
		}
		n.edit.change(end-1, end, join(first, elements, ']'))
	}
	return nil
}

func join(first string, elements [][]byte, last byte) []byte {
	size := len(first) + len(elements) + 1
	for _, e := range elements {
		size += len(e)
	}
	out := append(make([]byte, 0, size), first...)
	for i, e := range elements {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e...)
	}
	return append(out, last)
}

// put makes a member, or fills one that is null.
func (n *Node) put(key string, old Value, text []byte) {
	if old.Kind() == Null {
		span := n.edit.doc.nodes[old.at]
		n.edit.change(int(span.start), int(span.end), text)
		return
	}
	if len(n.added) > 0 {
		n.added = append(n.added, ',')
	}
	n.added = append(append(AppendString(n.added, key), ':'), text...)
}

func (e *Edit) change(start, end int, text []byte) {
	e.changes = append(e.changes, change{start, end, text})
}

// finish turns what was added to a node, and below it, into changes.
func (n *Node) finish() {
	for _, c := range n.children {
		c.finish()
		if c.value.None() && len(c.added) > 0 {
			n.put(c.key, c.value, append(append([]byte{'{'}, c.added...), '}'))
		}
	}
	if n.value.None() || len(n.added) == 0 {
		return
	}
	span := n.edit.doc.nodes[n.value.at]
	text := make([]byte, 0, len(n.added)+2)
	if int(span.next) > n.value.at+1 {
		text = append(text, ',')
	}
	n.edit.change(int(span.end)-1, int(span.end), append(append(text, n.added...), '}'))
}

// Bytes returns the changed document, nil where nothing changes. It may be
// called once.
func (e *Edit) Bytes() []byte {
	e.root.finish()
	if len(e.changes) == 0 {
		return nil
	}
	slices.SortFunc(e.changes, func(a, b change) int { return cmp.Compare(a.start, b.start) })
	size := len(e.doc.data)
	for _, c := range e.changes {
		size += len(c.text)
	}
	out, at := make([]byte, 0, size), 0
	for _, c := range e.changes {
		out = append(append(out, e.doc.data[at:c.start]...), c.text...)
		at = c.end
	}
	return append(out, e.doc.data[at:]...)
}

// Strings are those of the list at key as they were before any change.
func (n *Node) Strings(key string) ([]string, error) { return n.value.Strings(key) }
