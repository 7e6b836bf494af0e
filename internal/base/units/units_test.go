package units

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSizesHaveOneUnit(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0 B", 1023: "1023 B", 2048: "2 KiB", 3 << 20: "3 MiB", 1 << 30: "1.0 GiB", 192 << 30: "192.0 GiB",
	} {
		require.Equal(t, want, Bytes(n))
	}
	require.Equal(t, "0.5 GiB", FormatGiB(1<<29))
	require.Equal(t, "9.5 GB", FormatGB(9_500_000_000))
}

func TestAgesAndDurations(t *testing.T) {
	for d, want := range map[time.Duration][2]string{
		-time.Second:                  {"0s", "0.0s"},
		1500 * time.Millisecond:       {"1s", "1.5s"},
		723*time.Second + 1:           {"12m", "12m3s"},
		time.Minute:                   {"1m", "1m0s"},
		119 * time.Minute:             {"119m", "1h59m0s"},
		2 * time.Hour:                 {"2h", "2h0m0s"},
		26*time.Hour + 59*time.Minute: {"26h", "26h59m0s"},
		48 * time.Hour:                {"2d", "48h0m0s"},
	} {
		require.Equal(t, want, [2]string{Age(d), Duration(d)})
	}
}

func TestEventOfThisMinuteIsNow(t *testing.T) {
	require.Equal(t, "now", Ago(59*time.Second))
	require.Equal(t, "1m ago", Ago(time.Minute))
	require.Equal(t, "3d ago", Ago(72*time.Hour))
}

func TestCounts(t *testing.T) {
	require.Equal(t, "0 GPUs", Count(0, "GPU"))
	require.Equal(t, "1 process", Count(1, "process"))
	require.Equal(t, "2 processes", Count(2, "process"))
}

func TestSizesAreParsed(t *testing.T) {
	for text, want := range map[string]uint64{"40GiB": 40 << 30, "40G": 40 << 30, "40gb": 40 << 30, "1.5 GiB": 3 << 29,
		"512MiB": 512 << 20, "4096": 4096, "2t": 2 << 40, "1k": 1024} {
		got, err := ParseBytes(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "GiB", "-1G", "0", "40GG", "40 parsecs", "1e30G", "NaN", "Inf G"} {
		_, err := ParseBytes(text)
		require.Error(t, err, text)
	}
}

func FuzzParseBytes(f *testing.F) {
	f.Add("40GiB")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseBytes(text)
		require.True(t, err == nil || n == 0)
	})
}
