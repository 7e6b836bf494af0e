package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
