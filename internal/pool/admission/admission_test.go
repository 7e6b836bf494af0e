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
		`{"gpus":[]}`:                         true,
		`{"gpus":null}`:                       false,
		`{}`:                                  false,
		`{"GPUs":[]}`:                         false,
		`{"gpus":[],"gpus":[]}`:               false,
		`[]`:                                  false,
		`{"gpus":[`:                           false,
		`{"gpus":[{"name":"","reason":"x"}]}`: false,
		`{"gpus":[{"name":"a"}]}`:             false,
		`{"gpus":[],"avoid":[{"name":"a","step_hash":"b"}]}`:                  true,
		`{"gpus":[],"avoid":[{"name":"","step_hash":"b"}]}`:                   false,
		`{"gpus":[],"avoid":[{"name":"a"}]}`:                                  false,
		`{"gpus":[],"memory":[{"name":"a","files":["/sys/m"],"most":1}]}`:     true,
		`{"gpus":[],"memory":[{"name":"","files":["/sys/m"],"most":1}]}`:      false,
		`{"gpus":[],"memory":[{"name":"a","files":[],"most":1}]}`:             false,
		`{"gpus":[],"memory":[{"name":"a","files":["/m","m"],"most":1}]}`:     false,
		`{"gpus":[],"taken":[{"name":"a","percent":100}],"of a later one":1}`: true,
		`{"gpus":[],"taken":[{"name":"a","percent":101}]}`:                    false,
		`{"gpus":[],"taken":[{"name":"","percent":1}]}`:                       false,
		quarantined(maxGPUs):     true,
		quarantined(maxGPUs + 1): false,
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
	f.Add([]byte(`{"gpus":[],"avoid":[{"name":"a","step_hash":"b"}],"memory":[{"name":"a","files":["/sys/m"],"most":12}],"taken":[{"name":"a","percent":90}]}`))
	f.Add([]byte(`{"gpus":[],"memory":[{"name":"a","files":["m"],"most":-1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := Decode(data)
		if !ok {
			require.Zero(t, got)
			return
		}
		require.LessOrEqual(t, max(len(got.GPUs), len(got.Avoid), len(got.Memory), len(got.Taken)), maxGPUs)
		for _, g := range got.GPUs {
			require.NotEmpty(t, g.Name)
			require.NotEmpty(t, g.Reason)
		}
		back, ok := Decode(Encode(got))
		require.True(t, ok)
		require.Equal(t, got, back)
	})
}
