package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each row has a function's body and its edits.
func TestEditsOfAFunction(t *testing.T) {
	for body, want := range map[string][]string{
		"return a < 5":                 {"boundary < -> <=", "constant 5 -> 6"},
		"return a >= 90*time.Second":   {"boundary >= -> >", "constant 90 -> 2*90"},
		"return a == 5 && b":           {"negation && -> ||", "negation == -> !="},
		"if b { f() }":                 {"negation  -> !", "statement without f()"},
		"if !b { return }":             {"negation without !", "statement without return"},
		"a, c = f(), g()":              {"statement a, c = -> _, _ = "},
		"a := 5; _ = a":                nil,
		"const mode = 0o644":           nil,
		"const share = 0.05":           {"constant 0.05 -> 2*0.05"},
		"for { a++; break }":           {"statement without a++", "statement without break"},
		"switch { case a: f() }":       {"statement without f()"},
		"x := \"a < 5\"; return x + y": nil,
	} {
		edits, err := editsOf("a.go", []byte("package a\nfunc f() {\n"+body+"\n}\n"))
		require.NoError(t, err)
		var got []string
		for _, e := range edits {
			require.Equal(t, 3, e.line)
			got = append(got, e.change())
		}
		require.Equal(t, want, got, body)
	}
}

// The quickest packages run first. A slow one runs for its own edits only.
func TestOrderOfTests(t *testing.T) {
	run := &tests{baseline: map[string]time.Duration{
		"slow": time.Minute, "a": 5, "b": 4, "c": 3, "d": 2, "e": 1,
	}}
	require.Equal(t, [][]string{{"e", "d", "c", "b"}, {"a"}}, run.order([]string{"a", "slow", "failing", "b", "c", "d", "e"}))
	require.Equal(t, [][]string{{"slow"}}, run.order([]string{"slow"}))
	require.Empty(t, run.order([]string{"failing"}))
}

// An edit that survived lowers the share, one that did not compile does not.
func TestShareOfKilledEdits(t *testing.T) {
	e := edit{file: "a.go", kind: boundary, was: "<", text: "<="}
	require.InDelta(t, 0.75, report([]tried{{e, killed, ""}, {e, killed, ""}, {e, survived, ""}, {e, notCompiled, ""}, {e, killed, ""}}), 0.001)
}
