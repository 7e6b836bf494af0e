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
	text    []byte // that of changes, one after the other
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

// NewEdit starts to change a document. What is put in is written into room as
// long as it fits; nil will do.
func NewEdit(d *Doc, room []byte) (*Edit, error) {
	e := &Edit{doc: d, text: room[:0], changes: make([]change, 0, 8)}
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

// Append puts a list's elements, each as appendTo writes it in JSON, at the end
// of the list at key, after taking out those that drop wants gone; nil takes out
// none. The others stay in their order. It may be called once for a list.
func Append[T any](n *Node, key string, elements []T, appendTo func(T, []byte) []byte, drop func(Value) bool) error {
	list := Value{}
	if !n.value.None() {
		var err error
		if list, err = n.value.Of(key, Array); err != nil {
			return err
		}
	}
	e := n.edit
	from, all, dropped := len(e.text), 0, 0
	for v := range list.Elements() {
		if all++; drop != nil && drop(v) {
			dropped++
		}
	}
	if len(elements) == 0 && dropped == 0 {
		return nil
	}
	some := all > 0
	if list.None() || dropped > 0 {
		e.text = append(e.text, '[')
		some = false
		for v := range list.Elements() {
			if drop != nil && drop(v) {
				continue
			}
			e.text = append(comma(e.text, some), v.Raw()...)
			some = true
		}
	}
	for _, element := range elements {
		e.text = appendTo(element, comma(e.text, some))
		some = true
	}
	e.text = append(e.text, ']')
	text := e.text[from:len(e.text):len(e.text)]
	if list.None() {
		n.put(key, list, text)
		return nil
	}
	span := e.doc.nodes[list.at]
	if dropped > 0 {
		e.change(int(span.start), int(span.end), text)
	} else {
		e.change(int(span.end)-1, int(span.end), text)
	}
	return nil
}

func comma(out []byte, want bool) []byte {
	if want {
		out = append(out, ',')
	}
	return out
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

// Parts returns the changed document in pieces, nil where nothing changes. It
// may be called once.
func (e *Edit) Parts() [][]byte {
	e.root.finish()
	if len(e.changes) == 0 {
		return nil
	}
	slices.SortFunc(e.changes, func(a, b change) int { return cmp.Compare(a.start, b.start) })
	parts, at := make([][]byte, 0, 2*len(e.changes)+1), 0
	for _, c := range e.changes {
		parts = append(parts, e.doc.data[at:c.start], c.text)
		at = c.end
	}
	return append(parts, e.doc.data[at:])
}

// Strings are those of the list at key as they were before any change.
func (n *Node) Strings(key string) ([]string, error) { return n.value.Strings(key) }
