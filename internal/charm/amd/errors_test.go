package amd

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Alerts, documents and people refer to these numbers: they stay what they are.
func TestNumbersNamesAndSeveritiesAreFixed(t *testing.T) {
	var got []string
	for _, e := range ErrorCodes("dispatch") {
		got = append(got, strconv.Itoa(e.Code)+" "+e.Name+" ("+string(e.Severity)+")")
	}
	require.Equal(t, []string{
		"1 GPU Memory Error (Critical)",
		"2 GPU Hang (Critical)",
		"3 PCIe Error (Warning)",
		"4 Thermal Throttling (Warning)",
		"5 Power Limit Exceeded (Warning)",
		"6 ECC Error - Correctable (Info)",
		"7 ECC Error - Uncorrectable (Critical)",
		"8 XGMI Link Error (Critical)",
	}, got)
}

func TestEveryErrorIsExplainedInFull(t *testing.T) {
	said := map[string]int{}
	for _, e := range ErrorCodes("dispatch") {
		require.NotEmpty(t, e.Causes, e.Name)
		require.NotEmpty(t, e.Actions, e.Name)
		require.Regexp(t, `^https://docs\.kernel\.org/\S+\.html$`, e.Link, e.Name)
		require.Regexp(t, `^[A-Z].*\.$`, e.Description, e.Name)
		sources := map[Source]bool{}
		for _, s := range e.Detected {
			require.NotEmpty(t, s.What, e.Name)
			sources[s.Source] = true
		}
		require.True(t, sources[FromMetric] && sources[FromSysfs], "%s: a metric and where it comes from", e.Name)
		for _, text := range append(append([]string{e.Description}, e.Causes...), e.Actions...) {
			require.Equal(t, strings.TrimSpace(text), text)
			require.NotContains(t, text, "xgmi_error", "reading it clears it")
			said[text]++
		}
		require.Equal(t, 1, said[e.Description], "two errors have one description")
	}
}

func TestTableIsACopy(t *testing.T) {
	ErrorCodes("dispatch")[0].Causes[0] = "gremlins"
	e, err := explainError(1, "dispatch")
	require.NoError(t, err)
	require.NotEqual(t, "gremlins", e.Causes[0])
}

func TestUnknownCodesNameTheKnownOnes(t *testing.T) {
	const known = ": want one of 1 GPU Memory Error, 2 GPU Hang, 3 PCIe Error, 4 Thermal Throttling, 5 Power Limit Exceeded, " +
		"6 ECC Error - Correctable, 7 ECC Error - Uncorrectable, 8 XGMI Link Error"
	for text, shown := range map[string]string{"0": "0", "9": "9", "-1": "-1", "": `""`, "seven": `"seven"`, "7.5": `"7.5"`,
		"99999999999999999999": `"99999999999999999999"`} {
		_, err := ParseErrorCode(text, "dispatch")
		require.EqualError(t, err, "cannot explain error code "+shown+known)
	}
	e, err := ParseErrorCode("7", "dispatch")
	require.NoError(t, err)
	require.Equal(t, "ECC Error - Uncorrectable", e.Name)
}

func FuzzParseErrorCode(f *testing.F) {
	for _, s := range []string{"7", "0", "x", "", "+3", "1\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseErrorCode(text, "dispatch")
		if err == nil {
			require.True(t, e.Code >= 1 && e.Code <= 8 && e.Name != "")
			return
		}
		require.Contains(t, err.Error(), "8 XGMI Link Error")
		require.NotContains(t, err.Error(), "\n")
	})
}
