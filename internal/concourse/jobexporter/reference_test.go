package jobexporter

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What fly 8.2.5 calls these, but for the last rows: fly leaves an empty map
// out, and two instances would have one name.
func TestReferencesAreFromFly(t *testing.T) {
	for vars, want := range map[string]string{
		`null`:                            `p`,
		`{}`:                              `p/`,
		`{"b":"main","a":1}`:              `p/a:1,b:main`,
		`{"k":"yes"}`:                     `p/k:"yes"`,
		`{"k":"yEs"}`:                     `p/k:yEs`,
		`{"k":"OFF"}`:                     `p/k:"OFF"`,
		`{"k":"y"}`:                       `p/k:"y"`,
		`{"k":"true"}`:                    `p/k:"true"`,
		`{"k":true}`:                      `p/k:true`,
		`{"k":null}`:                      `p/k:null`,
		`{"k":"~"}`:                       `p/k:"~"`,
		`{"k":""}`:                        `p/k:""`,
		`{"k":"1.26"}`:                    `p/k:"1.26"`,
		`{"k":1.26}`:                      `p/k:1.26`,
		`{"k":"1.26.1"}`:                  `p/k:1.26.1`,
		`{"k":"2001-01-02"}`:              `p/k:2001-01-02`,
		`{"k":"a b"}`:                     `p/k:"a b"`,
		`{"k":"a/b"}`:                     `p/k:"a/b"`,
		`{"k":"a,b"}`:                     `p/k:"a,b"`,
		`{"k":"{}"}`:                      `p/k:"{}"`,
		`{"k":"<a>"}`:                     `p/k:\u003ca\u003e`,
		`{"k":"a\\b"}`:                    `p/k:a\\b`,
		`{"a.b":{"c d":"x","e":[1,"x"]}}`: `p/"a.b"."c d":x,"a.b".e:[1,"x"]`,
		`{"a":{"b":{"c":"x"}}}`:           `p/a.b.c:x`,
		`{"a":{}}`:                        `p/a:{}`,
		`{"a":{"b":{}},"c":"x"}`:          `p/a.b:{},c:x`,
	} {
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(vars), &v))
		require.Equal(t, want, Reference("p", v), vars)
	}
}

// A chain of 9000 maps with many leaves at its end would take gigabytes.
func TestNestedVariablesDoNotGrow(t *testing.T) {
	text := strings.Repeat(`{"abc":`, 9000) + `{"y":1,"z":1}` + strings.Repeat("}", 9000)
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	var f flattened
	f.add("v", v)
	require.Empty(t, f.pairs)
	require.Empty(t, Reference("p", v))
}
