package charm

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/internal/rocm"
)

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestExplanationsAsPeopleReadThem(t *testing.T) {
	c := &Actions{Charm: &Charm{}}
	var all strings.Builder
	require.NoError(t, c.ListErrors(&all, Format{}))
	for _, e := range rocm.ErrorCodes() {
		var plain, coloured strings.Builder
		require.NoError(t, c.ExplainError(&plain, fmt.Sprint(e.Code), Format{}))
		require.NoError(t, c.ExplainError(&coloured, fmt.Sprint(e.Code), Format{Colour: true}))
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
	require.NoError(t, (&Actions{Charm: &Charm{}}).ListErrors(&plain, Format{}))
	require.NoError(t, (&Actions{Charm: &Charm{}}).ListErrors(&coloured, Format{Colour: true}))
	require.Equal(t, plain.String(), escapes.ReplaceAllString(coloured.String(), ""), "columns stay where they are")
	require.Contains(t, coloured.String(), "\x1b[1;31mCritical\x1b[0m  GPU Hang")
	require.Contains(t, coloured.String(), "\x1b[33mWarning\x1b[0m   PCIe Error")
	require.Contains(t, coloured.String(), "\x1b[36mInfo\x1b[0m      ECC Error - Correctable")
}

func TestErrorsAsJSONHaveTheWholeTable(t *testing.T) {
	var b strings.Builder
	require.NoError(t, (&Actions{Charm: &Charm{}}).ListErrors(&b, Format{JSON: true, Colour: true}))
	var list struct{ Errors []rocm.ErrorCode }
	require.NoError(t, json.Unmarshal([]byte(b.String()), &list))
	require.Equal(t, rocm.ErrorCodes(), list.Errors)

	b.Reset()
	require.NoError(t, (&Actions{Charm: &Charm{}}).ExplainError(&b, "8", Format{JSON: true, Colour: true}))
	var one rocm.ErrorCode
	require.NoError(t, json.Unmarshal([]byte(b.String()), &one))
	require.Equal(t, rocm.ErrorCodes()[7], one)

	b.Reset()
	require.ErrorContains(t, (&Actions{Charm: &Charm{}}).ExplainError(&b, "9", Format{JSON: true}), "want one of 1 GPU Memory Error, ")
	require.Empty(t, b.String())
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"a bc", "def", "ghijklm", "°°°° n"}, wrap(" a bc  def ghijklm °°°° n", 6))
	require.Equal(t, []string{""}, wrap("", 6))
}
