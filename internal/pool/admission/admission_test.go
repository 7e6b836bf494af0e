package admission

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A damaged file has no quarantine, so that a mistake does not end all tasks with GPUs.
func TestWholeFileIsReadOrNothing(t *testing.T) {
	const gpu = `{"name":"a","reason":"x"}`
	quarantined := func(n int) string { return `{"gpus":[` + strings.Repeat(gpu+",", n-1) + gpu + `]}` }
	for text, want := range map[string]bool{
		`{"gpus":[]}`:                           true,
		`{"gpus":null}`:                         false,
		`{}`:                                    false,
		`{"GPUs":[]}`:                           false,
		`{"gpus":[],"gpus":[]}`:                 false,
		`[]`:                                    false,
		`{"gpus":[`:                             false,
		`{"gpus":[{"name":"","reason":"x"}]}`:   false,
		`{"gpus":[{"reason":"x"}]}`:             false,
		`{"gpus":[{"name":"a","avoid":["b"]}]}`: true,
		`{"gpus":[{"name":"a","avoid":[""]}]}`:  false,
		`{"gpus":[{"name":"a","files":["/sys/m"],"most":1}]}`:    true,
		`{"gpus":[{"name":"a","files":["/m","m"],"most":1}]}`:    false,
		`{"gpus":[{"name":"a","taken":100}],"of a later one":1}`: true,
		`{"gpus":[{"name":"a","taken":101}]}`:                    false,
		quarantined(maxGPUs):                                     true,
		quarantined(maxGPUs + 1):                                 false,
	} {
		f, ok := Decode([]byte(text))
		require.Equal(t, want, ok, "%.200s", text)
		if !ok {
			require.Zero(t, f)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"gpus":[{"name":"a","reason":"is quarantined"}]}`, `{"gpus":[]}`, `{"gpus":null}`, `{"gpus":[{"name":"a"}]}`, `[]`, ``, `{"gpus":[{"name":"\ud800","why":"x","more":1}],"x":2}`} {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"gpus":[{"name":"a","avoid":["b"],"files":["/sys/m"],"most":12,"taken":90}]}`))
	f.Add([]byte(`{"gpus":[{"name":"a","files":["m"],"most":-1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := Decode(data)
		if !ok {
			require.Zero(t, got)
			return
		}
		require.LessOrEqual(t, len(got.GPUs), maxGPUs)
		for _, g := range got.GPUs {
			require.NotEmpty(t, g.Name)
		}
		back, ok := Decode(Encode(got))
		require.True(t, ok)
		require.Equal(t, got, back)
	})
}
