package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMistakesAreNamedWithTheirPlace(t *testing.T) {
	for in, want := range map[string]string{
		``:                "it ends too early, at byte 0: want a value",
		`{"a":`:           "it ends too early, at byte 5: want a value",
		`{`:               "it ends too early, at byte 1: want a key",
		`{"a":1,`:         "it ends too early, at byte 7: want a key",
		`[`:               "it ends too early, at byte 1: want a value",
		`[1,`:             "it ends too early, at byte 3: want a value",
		`{"a"`:            "it ends too early, at byte 4: want a colon",
		`{"a":1`:          "it ends too early, at byte 6: want a comma or }",
		`[1`:              "it ends too early, at byte 2: want a comma or ]",
		`"a`:              "it ends too early, at byte 2: want a closing quote",
		`{"a":1,}`:        "byte 7 is '}': want a key",
		`[1,]`:            "byte 3 is ']': want a value",
		`{1:2}`:           "byte 1 is '1': want a key",
		`[1 2]`:           "byte 3 is '2': want a comma or ]",
		`nul`:             "want null",
		`01`:              "byte 1 is '1': want the end",
		`-`:               "want a digit",
		`1.`:              "want a digit",
		`1e+`:             "want a digit",
		`"\x"`:            "want an escape",
		`"\u12g4"`:        "want a hex digit",
		"\"a\nb\"":        "no control character",
		"\xef\xbb\xbf{}":  "want a value",
		`{} {}`:           "byte 3 is '{': want the end",
		"\x7fELF":         "want a value",
		`{"a":"\ud800\"}`: "want a closing quote",
	} {
		_, err := Parse([]byte(in))
		require.ErrorContains(t, err, want, in)
	}
}

func TestDepthAndNumberOfValuesAreBounded(t *testing.T) {
	_, err := Parse([]byte(strings.Repeat("[", 101) + strings.Repeat("]", 101)))
	require.NoError(t, err)
	_, err = Parse([]byte(strings.Repeat("[", 102) + strings.Repeat("]", 102)))
	require.ErrorContains(t, err, "nests deeper than 100 levels")
	_, err = Parse([]byte(strings.Repeat("[", 1<<24)))
	require.ErrorContains(t, err, "nests deeper")
	_, err = Parse([]byte("[" + strings.Repeat("1,", maxValues) + "1]"))
	require.ErrorContains(t, err, "more than 1048576 values")
}

func TestKeysThatOthersReadInAnotherWayAreRefused(t *testing.T) {
	for in, want := range map[string]string{
		`{"mounts":1,"mounts":2}`:      `key "mounts" is duplicate`,
		`{"mounts":1,"\u006dounts":2}`: `key "mounts" is duplicate`,
		`{"Mounts":1}`:                 `key "Mounts" must be written "mounts"`,
	} {
		d, err := Parse([]byte(in))
		require.NoError(t, err)
		_, err = d.Root().Get("mounts")
		require.EqualError(t, err, want)
	}
}

func TestNumbersAreWholeAndBounded(t *testing.T) {
	for in, ok := range map[string]bool{
		`0`: true, `255`: true, `256`: false, `-1`: false, `1.0`: false, `1e2`: false, `"1"`: false, `99999999999999999999999`: false, `-0`: false,
	} {
		d, err := Parse([]byte(in))
		require.NoError(t, err)
		_, err = d.Root().Whole(255)
		require.Equal(t, ok, err == nil, in)
	}
	d, err := Parse([]byte(`18446744073709551615`))
	require.NoError(t, err)
	n, err := d.Root().Whole(1<<64 - 1)
	require.NoError(t, err)
	require.Equal(t, uint64(1<<64-1), n)
}

// plain turns a value into what encoding/json makes of it.
func plain(v Value) any {
	switch v.Kind() {
	case Bool:
		return v.Raw()[0] == 't'
	case Number:
		return json.Number(v.Raw())
	case String:
		return v.Text()
	case Array:
		list := []any{}
		for e := range v.Elements() {
			list = append(list, plain(e))
		}
		return list
	case Object:
		m := map[string]any{}
		for key, e := range v.Members() {
			m[key] = plain(e)
		}
		return m
	}
	return nil
}

// depth is how deep lists and objects nest.
func depth(data []byte) (most int) {
	d := json.NewDecoder(bytes.NewReader(data))
	for now := 0; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) || err != nil {
			return most
		}
		switch token {
		case json.Delim('['), json.Delim('{'):
			now++
			most = max(most, now)
		case json.Delim(']'), json.Delim('}'):
			now--
		}
	}
}

// FuzzParse holds this parser against encoding/json's: they accept the same,
// and read the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-0.5e+7,true,false,null,"x"],"b":{}}`, ` [ ] `, `"\ud83d\ude00\ud800\u0041\/\b"`, "\"\xff\xfe\"", `{"a":1,"a":2}`,
		`[[[[[[]]]]]]`, `1e5`, `"\ud83dx"`, `"\ud800\ud800\udc00"`, `-`, "\"\u2028\"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Parse(data)
		if valid := json.Valid(data); valid != (err == nil) && depth(data) <= maxDepth {
			t.Fatalf("encoding/json: %v, here: %v", valid, err)
		}
		if err != nil {
			return
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		require.Equal(t, want, plain(doc.Root()))
		if s, ok := want.(string); ok {
			var back string
			if err := json.Unmarshal(AppendString(nil, s), &back); err != nil || back != s {
				t.Fatalf("%q became %q: %v", s, back, err)
			}
		}
	})
}

func TestEachByteAtEachPlaceIsReadAsEncodingJSONReadsIt(t *testing.T) {
	for at := range 20 {
		for c := range 256 {
			text := []byte("[\"" + strings.Repeat("a", 20) + "\"]")
			text[2+at] = byte(c)
			blank := []byte("[" + strings.Repeat(" ", 20) + "1]")
			blank[1+at] = byte(c)
			for _, data := range [][]byte{text, blank} {
				d, err := Parse(data)
				require.Equal(t, json.Valid(data), err == nil, "%q", data)
				if err != nil {
					continue
				}
				var want []any
				require.NoError(t, json.Unmarshal(data, &want))
				require.Equal(t, len(want), d.Root().Len(), "%q", data)
				if s, ok := want[0].(string); ok {
					for v := range d.Root().Elements() {
						require.Equal(t, s, v.Text(), "%q", data)
					}
				}
			}
		}
	}
}
