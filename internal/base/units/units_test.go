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

func TestCO2IsShownWithAFactorOnly(t *testing.T) {
	require.Nil(t, CO2(2, 0))
	require.InDelta(t, .76, *CO2(2, 380), 1e-9)
	require.Equal(t, "0.004 kg of CO2", FormatCO2(.0042))
	require.Equal(t, "1.0 kg of CO2", FormatCO2(1))
	require.Equal(t, "1234.5 kg of CO2", FormatCO2(1234.5))
}
