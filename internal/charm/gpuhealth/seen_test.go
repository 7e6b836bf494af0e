package gpuhealth

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Only faulty GPUs of a real exporter's report are quarantined. Partitions and integrated
// GPUs are not, although they lack some values.
func TestGPUsOfEveryHostAreInService(t *testing.T) {
	for name, sick := range map[string]string{"amd": "", "mi210x4": "0000:c3:00.0", "mi300x-cpx": "", "apu-gfx1103": "", "amd-nvidia": ""} {
		r := hosttest.Host(t, name)
		data, err := json.Marshal(map[string]any{"gpus": monitor.StatusOf(monitor.New(r, monitor.All(r), monitor.Options{}).Snapshot())})
		require.NoError(t, err)
		seen, err := parseLook(data)
		require.NoError(t, err, name)
		rec := quarantine.Decide(quarantine.Record{}, quarantine.Look{At: hosttest.Now, Policy: quarantine.Auto, GPUs: seen})
		require.Len(t, rec.GPUs, len(seen))
		out := ""
		for _, g := range rec.NotInService() {
			out += g.Name
		}
		require.Equal(t, sick, out, name)
	}
}

// GPUs of other vendors are not quarantined.
func TestOnlyAMDGPUsAreQuarantined(t *testing.T) {
	seen, err := parseLook([]byte(`{"gpus":[{"vendor":"nvidia","pci_bus_id":"0000:0a:00.0","health":{"state":"critical","faults":[{"kind":"hang","signals":["lost"]}]}},
		{"vendor":"amd","pci_bus_id":"0000:03:00.0","up":true}]}`))
	require.NoError(t, err)
	require.Equal(t, []quarantine.Reading{{Slot: gpu.Slot{Vendor: gpu.AMD, PCI: "0000:03:00.0"}, Up: true}}, seen)
}

func TestImplausibleAnswersAreRejected(t *testing.T) {
	const one = `{"pci_bus_id":"0000:03:00.0","up":true,"health":{"state":"critical","faults":[{"kind":"hang","signals":["kernel\u001b[2Jlog"]}]}}`
	seen, err := parseLook([]byte(`{"gpus":[` + one + `]}`))
	require.NoError(t, err)
	require.Equal(t, []quarantine.Reading{{Slot: gpu.Slot{PCI: "0000:03:00.0"}, Up: true, State: health.Critical, Faults: []health.Fault{{Kind: health.Hang, Signals: []string{"kernel?[2Jlog"}}}}}, seen)
	for text, want := range map[string]string{
		`{"gpus":[` + one + `,` + one + `]}`:  "reports impossible GPUs",
		`{"gpus":[{"pci_bus_id":"../../x"}]}`: "reports impossible GPUs",
		`{"gpus":[{"pci_bus_id":""}]}`:        "reports impossible GPUs",
		`{"gpus":[]}`:                         "knows of no GPU",
		`<html>`:                              "does not answer with its list",
	} {
		_, err := parseLook([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzFetchSeen(f *testing.F) {
	f.Add([]byte(`{"gpus":[{"pci_bus_id":"0000:03:00.0","partition":1,"health":{"faults":[{"kind":"hang","signals":["a"]}]}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		seen, err := parseLook(data)
		if err != nil {
			return
		}
		rec := quarantine.Decide(quarantine.Record{}, quarantine.Look{At: hosttest.Now, Policy: quarantine.Auto, GPUs: seen})
		require.Len(t, rec.GPUs, len(seen))
	})
}

// parseLook is FetchSeen without HTTP.
func parseLook(data []byte) ([]quarantine.Reading, error) {
	r, err := ParseReport(data)
	if err != nil {
		return nil, err
	}
	return parseSeen(r.GPUs)
}
