package release

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// D15, D27: what is not a version is named, with what to write instead.
func TestCheckVersionNamesTheCorrectForm_D15_D27(t *testing.T) {
	for in, want := range map[string]string{
		"8.2.5":            "",
		"0.0.1":            "",
		"v8.2.5":           "write 8.2.5",
		"latest":           "name one, such as 8.2.5",
		"Latest":           "name one",
		"":                 "want x.y.z",
		"8.2":              "want x.y.z",
		"8.2.5-rc.1":       "want x.y.z",
		"08.2.5":           "want x.y.z",
		"8.2.5\n":          "want x.y.z",
		"../../etc/passwd": "want x.y.z",
		"8.2.99999999":     "want x.y.z",
	} {
		err := CheckVersion(in)
		if want == "" {
			require.NoError(t, err, in)
		} else {
			require.ErrorContains(t, err, want, in)
		}
	}
}

// D15: versions have an order, by number and not by text.
func TestCompareVersionsOrdersByNumber_D15(t *testing.T) {
	require.Negative(t, compareVersions("8.2.5", "8.10.0"))
	require.Positive(t, compareVersions("10.0.0", "9.9.9"))
	require.Zero(t, compareVersions("8.2.5", "8.2.5"))
	require.Negative(t, compareVersions("7.14.3", "8.0.0"))
}

func TestWebsGiveWorkToWorkersOfTheirProtocol(t *testing.T) {
	for name, c := range map[string]struct {
		web, worker string
		fits        bool
	}{
		"the same":               {"8.2.5", "8.2.5", true},
		"another of its family":  {"8.2.5", "7.14.0", true},
		"the web is newer":       {"8.3.0", "8.2.5", false},
		"the worker is newer":    {"8.2.5", "8.3.0", false},
		"both from the border":   {"8.3.0", "9.0.1", true},
		"one is not known":       {"8.3.0", "", true},
		"one is not a version":   {"dev", "8.2.5", true},
		"ten is more than eight": {"10.0.0", "8.2.5", false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.fits, Fits(c.web, c.worker)) })
	}
}
