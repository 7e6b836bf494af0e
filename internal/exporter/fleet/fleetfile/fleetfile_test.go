package fleetfile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFileIsReadAsItWasWritten(t *testing.T) {
	f := File{Concourse: "https://ci.example.com", Metrics: []string{"http://127.0.0.1:9391/metrics"}, RequiredArchs: []string{"gfx942"},
		HideNames: true, Workers: []Worker{{Unit: "gpu/0", URL: "http://[fd00::5]:9401", Count: 2, GPUs: []GPU{{Index: 1, GFX: "gfx942"}}}}}
	data, err := f.Marshal()
	require.NoError(t, err)
	again, err := Parse(data)
	require.NoError(t, err)
	require.Equal(t, f, again)
}

// A link of the page must lead to a worker, and a URL must not have a password.
func TestImpossibleFilesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "is not the JSON",
		`{"workers":[]} {}`:              "data follows",
		`{"odd":1}`:                      "unknown field",
		`{"workers":[{}]}`:               "a worker has no unit",
		`{"concourse":"javascript:x()"}`: "is not a URL",
		`{"metrics":["http://a:b@c/"]}`:  "is not a URL",
		`{"workers":[{"unit":"gpu/0","url":"http://x/?y"}]}`:                                 "is not a URL",
		`{"workers":[{"unit":"gpu/0","count":1025}]}`:                                        "more than 1024 GPUs",
		`{"metrics":["` + strings.Repeat(`http://x","`, maxMetrics) + `http://x"]}`:          "more than",
		`{"workers":[` + strings.Repeat(`{"unit":"a"},`, maxWorkers) + `{"unit":"a"}` + `]}`: "more than",
		strings.Repeat(" ", MaxSize+1):                                                       "it has more than",
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want, "%.60s", text)
	}
	_, err := File{Workers: []Worker{{}}}.Marshal()
	require.EqualError(t, err, "cannot write the list of workers: a worker has no unit")
}
