package actions

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestExplanationsInText(t *testing.T) {
	c := &Actions{Charm: &charm.Charm{}}
	var all strings.Builder
	require.NoError(t, c.ListErrors(&all, term.Format{}))
	for _, e := range amd.ErrorCodes("dispatch") {
		var plain, coloured strings.Builder
		require.NoError(t, c.ExplainError(&plain, term.Format{}, fmt.Sprint(e.Code)))
		require.NoError(t, c.ExplainError(&coloured, term.Format{Colour: true}, fmt.Sprint(e.Code)))
		require.NotContains(t, plain.String(), "\x1b")
		require.Regexp(t, escapes, coloured.String())
		require.Equal(t, plain.String(), escapes.ReplaceAllString(coloured.String(), ""), "colour only adds")
		for line := range strings.Lines(plain.String()) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSpace(line)), textWidth, line)
		}
		fmt.Fprintf(&all, "\n== %d\n%s", e.Code, &plain)
	}
	hosttest.Golden(t, "testdata/errors.golden", all.String())
}

func TestListOfErrorsInColour(t *testing.T) {
	var plain, coloured strings.Builder
	require.NoError(t, (&Actions{Charm: &charm.Charm{}}).ListErrors(&plain, term.Format{}))
	require.NoError(t, (&Actions{Charm: &charm.Charm{}}).ListErrors(&coloured, term.Format{Colour: true}))
	require.Equal(t, plain.String(), escapes.ReplaceAllString(coloured.String(), ""), "columns stay where they are")
	require.Contains(t, coloured.String(), "GPU Hang                   \x1b[1;31mCritical\x1b[0m  A ring")
	require.Contains(t, coloured.String(), "PCIe Error                 \x1b[33mWarning\x1b[0m   PCIe packets")
	require.Contains(t, coloured.String(), "ECC Error - Correctable    \x1b[36mInfo\x1b[0m      The hardware")
}

func TestErrorsAsJSONHaveTheWholeTable(t *testing.T) {
	var b strings.Builder
	require.NoError(t, (&Actions{Charm: &charm.Charm{}}).ListErrors(&b, term.Format{JSON: true, Colour: true}))
	var list struct{ Errors []amd.ErrorCode }
	require.NoError(t, json.Unmarshal([]byte(b.String()), &list))
	require.Equal(t, amd.ErrorCodes("dispatch"), list.Errors)

	b.Reset()
	require.NoError(t, (&Actions{Charm: &charm.Charm{}}).ExplainError(&b, term.Format{JSON: true, Colour: true}, "8"))
	var one amd.ErrorCode
	require.NoError(t, json.Unmarshal([]byte(b.String()), &one))
	require.Equal(t, amd.ErrorCodes("dispatch")[7], one)

	b.Reset()
	require.ErrorContains(t, (&Actions{Charm: &charm.Charm{}}).ExplainError(&b, term.Format{JSON: true}, "9"),
		"want one of 1 GPU Memory Error, ")
	require.Empty(t, b.String())
}
