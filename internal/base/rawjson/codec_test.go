package rawjson

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func parsed(t *testing.T, text string) *Doc {
	t.Helper()
	d, err := Parse([]byte(text))
	require.NoError(t, err, text)
	return d
}

// sample has a member of each kind.
type sample struct {
	name, note string
	words      []string
	count      uint64
	at         time.Time
	on         bool
	inner      string
	list       []string
}

func (s *sample) members(c *Codec) {
	c.Version(3)
	c.String("name", &s.name)
	c.OptionalString("note", &s.note)
	c.Strings("words", &s.words)
	c.OptionalNumber("count", &s.count, 10)
	c.Millis("at", &s.at)
	c.OptionalBool("on", &s.on)
	c.OptionalObject("inner", s.inner == "", func(c *Codec) { c.String("inner", &s.inner) })
	OptionalList(c, "list", &s.list, func(c *Codec, e *string) { c.String("e", e) })
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	for text, s := range map[string]sample{
		`{"format_version":3,"name":"","words":[],"at":1000}`: {at: time.UnixMilli(1000)},
		`{"format_version":3,"name":"a\"","note":"n","words":["x","y"],"count":10,"at":1785585600000,"on":true,"inner":{"inner":"i"},"list":[{"e":"1"},{"e":"2"}]}`: {
			"a\"", "n", []string{"x", "y"}, 10, time.UnixMilli(1785585600000), true, "i", []string{"1", "2"}},
	} {
		require.Equal(t, text, string(Encode(nil, s.members)))
		var back sample
		require.NoError(t, Decode(parsed(t, text).Root(), back.members))
		if len(back.words) == 0 {
			back.words = nil
		}
		require.Equal(t, s, back)
	}
}

func TestInvalidMembersAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":1}`:             "name",
		`{"words":[1]}`:          "words",
		`{"words":"x"}`:          "words",
		`{"count":11}`:           "count",
		`{"count":-1}`:           "count",
		`{"at":281474976710657}`: "at",
		`{"on":"true"}`:          "on",
		`{"inner":[]}`:           "inner",
		`{"inner":{"inner":1}}`:  "inner",
		`{"list":{}}`:            "list",
		`{"list":[1]}`:           "not an object",
		`{"Name":"a"}`:           `must be written "name"`,
		`[]`:                     "",
	} {
		var s sample
		require.ErrorContains(t, Decode(parsed(t, text).Root(), s.members), want, text)
	}
	var s sample
	require.NoError(t, Decode(parsed(t, `{"at":281474976710656,"inner":null,"list":null,"more":{}}`).Root(), s.members))
	require.Empty(t, s.list)
}

// A later version's file is neither read nor replaced.
func TestFileOfALaterVersionIsRefused(t *testing.T) {
	for text, want := range map[string]int{`{}`: 1, `{"format_version":0}`: 1, `{"format_version":3}`: 3} {
		var s sample
		require.NoError(t, Decode(parsed(t, text).Root(), s.members), text)
		n, err := VersionOf(parsed(t, text).Root())
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	var s sample
	var newer *NewerError
	require.ErrorAs(t, Decode(parsed(t, `{"format_version":4}`).Root(), s.members), &newer)
	require.Equal(t, NewerError{Version: 4, Newest: 3}, *newer)
	require.Contains(t, (&NewerError{File: "/f", Version: 4, Newest: 3}).Error(), "cannot use /f: it has format 4 of a later version, and this one reads format 3")
	require.Error(t, Decode(parsed(t, `{"format_version":1048577}`).Root(), s.members))
}

// edited returns the document after changes, and whether any were made.
func edited(t *testing.T, text string, change func(root *Node)) (string, bool) {
	t.Helper()
	e, err := NewEdit(parsed(t, text))
	require.NoError(t, err)
	change(e.Root())
	parts := e.Parts()
	if parts == nil {
		return text, false
	}
	return string(bytes.Join(parts, nil)), true
}

// What an edit does not change keeps its bytes, also white space and the order of keys.
func TestEditKeepsTheRest(t *testing.T) {
	add := func(path string, elements ...string) func(*Node) {
		return func(root *Node) {
			n, err := root.At(strings.Fields(path)...)
			require.NoError(t, err)
			var all [][]byte
			for _, e := range elements {
				all = append(all, []byte(e))
			}
			require.NoError(t, n.Append("l", all, func(v Value) bool { return string(v.Raw()) == "0" }))
		}
	}
	for _, c := range []struct {
		name, text string
		change     func(*Node)
		want       string
	}{
		{"nothing", `{"l": [1]}`, add(""), ""},
		{"to an empty list", `{ "l":[ ] }`, add("", "2"), `{ "l":[ 2] }`},
		{"to a list", `{"l":[1 , 3] ,"b":{}}`, add("", "2", "4"), `{"l":[1 , 3,2,4] ,"b":{}}`},
		{"moved to the end", `{"l":[1, 2, 3]}`, add("", "2"), `{"l":[1,3,2]}`},
		{"dropped", `{"l":[1, 0]}`, add(""), `{"l":[1]}`},
		{"a new list", `{"b":1}`, add("", "2"), `{"b":1,"l":[2]}`},
		{"in an empty object", `{}`, add("", "2"), `{"l":[2]}`},
		{"instead of null", `{"l":null}`, add("", "2"), `{"l":[2]}`},
		{"in new objects", `{"b":1}`, add("x y", "2"), `{"b":1,"x":{"y":{"l":[2]}}}`},
		{"in an object that is null", `{"x":null}`, add("x", "2"), `{"x":{"l":[2]}}`},
		{"nothing in new objects", `{"b":1}`, add("x y"), ""},
	} {
		got, changed := edited(t, c.text, c.change)
		require.Equal(t, c.want != "", changed, c.name)
		if changed {
			require.Equal(t, c.want, got, c.name)
		}
	}
	got, _ := edited(t, `{"a":{"l":[1]},"z":{}}`, func(root *Node) {
		add("z", "3")(root)
		add("a", "2")(root)
		add("a m", "4")(root)
	})
	require.Equal(t, `{"a":{"l":[1,2],"m":{"l":[4]}},"z":{"l":[3]}}`, got)
}

func TestEditNeedsObjects(t *testing.T) {
	_, err := NewEdit(parsed(t, `[]`))
	require.ErrorContains(t, err, "not an object")
	e, err := NewEdit(parsed(t, `{"a":1,"l":{}}`))
	require.NoError(t, err)
	_, err = e.Root().At("a", "b")
	require.Error(t, err)
	require.Error(t, e.Root().Append("l", nil, nil))
}
