package fleetfile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"concourse":"https://ci.example.com","metrics":["http://[fd00::1]:9391/metrics"],"required-archs":null,"workers":[{"unit":"gpu/0","name":"","url":"http://10.0.0.5:9401","count":1,"gpus":[{"index":0}],"published":"2026-01-01T00:00:00Z"}]}`))
	f.Add([]byte(`{"workers":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data)
		if err != nil {
			return
		}
		text, err := file.Marshal()
		require.NoError(t, err)
		again, err := Parse(text)
		require.NoError(t, err)
		twice, err := again.Marshal()
		require.NoError(t, err)
		require.Equal(t, string(text), string(twice), "what is read is written as it was")
	})
}
