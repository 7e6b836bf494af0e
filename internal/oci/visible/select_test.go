package visible

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A task sees as many GPUs as it asks for, also if none is leased.
func TestCountOfSharedGPUsIsKept(t *testing.T) {
	for in, want := range map[string]string{
		"":                                       "0 1",
		"GPU_COUNT=":                             "0 1",
		"GPU_COUNT= all ":                        "0 1",
		"GPU_COUNT=0":                            "",
		"GPU_COUNT=1":                            "0",
		"GPU_COUNT=2":                            "0 1",
		"AMD_VISIBLE_DEVICES=all GPU_COUNT=1":    "0",
		"AMD_VISIBLE_DEVICES=1 GPU_COUNT=1":      "1",
		"AMD_VISIBLE_DEVICES=1 GPU_COUNT=all":    "1",
		"AMD_VISIBLE_DEVICES=0,1 GPU_COUNT=0":    "",
		"AMD_VISIBLE_DEVICES=none GPU_COUNT=two": "",
	} {
		for _, unit := range [][]string{unitAll, {"amd.com/gpu=0", "amd.com/gpu=1"}} {
			got, err := asked(t, cards(2), unit, strings.Fields(in)...)
			require.NoError(t, err, in)
			require.Equal(t, want, got, in)
		}
	}
	for in, want := range map[string]string{
		"GPU_COUNT=3": "cannot give the task 3 GPUs: this machine gives 2; request fewer with " +
			"GPU_COUNT",
		"AMD_VISIBLE_DEVICES=1 GPU_COUNT=2": "cannot give the task 2 GPUs: the task names 1; request fewer with " +
			"GPU_COUNT",
		"GPU_COUNT=two": `cannot give the task GPU_COUNT="two" GPUs: it is not a whole number or all`,
		"GPU_COUNT=-1":  `cannot give the task GPU_COUNT="-1" GPUs: it is not a whole number or all`,
	} {
		_, err := asked(t, cards(2), unitAll, strings.Fields(in)...)
		require.EqualError(t, err, want, in)
	}
}

// What fly makes of params that are not quoted: sigs.k8s.io/yaml, then atc.TaskEnv.
func TestRefusalNamesTheQuotesThatAreMissing(t *testing.T) {
	const spec = `{"cdiVersion":"0.6.0","kind":"amd.com/gpu","devices":[
		{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/dri/renderD128"}]}},
		{"name":"GPU-4be2f10c93d57a68","containerEdits":{"deviceNodes":[{"path":"/dev/dri/renderD128"}]}},
		{"name":"1","containerEdits":{"deviceNodes":[{"path":"/dev/dri/renderD129"}]}},
		{"name":"all","containerEdits":{"deviceNodes":[{"path":"/dev/dri/x"}]}}]}`
	for in, want := range map[string]string{
		"AMD_VISIBLE_DEVICES=5468197933903346280": `"5468197933903346280" is what YAML makes of 0x4be2f10c93d57a68 without quotes: write "0x4be2f10c93d57a68"; there are: 0 (`,
		"AMD_VISIBLE_DEVICES=5468197933903346281": `"5468197933903346281" is not a GPU that this machine gives`,
		"1= AMD_VISIBLE_DEVICES=0":                `AMD_VISIBLE_DEVICES="0": the task also has a variable "1" without a value, as YAML reads {AMD_VISIBLE_DEVICES: 0,1}; write the list in quotes: "0,1"; there are`,
		"AMD_VISIBLE_DEVICES=0 GPU-4b= 1-3=":      `as YAML reads {AMD_VISIBLE_DEVICES: 0,1-3,GPU-4b}`,
	} {
		_, err := asked(t, spec, unitAll, strings.Fields(in)...)
		require.ErrorContains(t, err, want, in)
	}
	for _, fine := range []string{"AMD_VISIBLE_DEVICES=0 EMPTY=", "AMD_VISIBLE_DEVICES=0 1=x", "1="} {
		_, err := asked(t, spec, unitAll, strings.Fields(fine)...)
		require.NoError(t, err, fine)
	}
}

// The device all lacks an integrated GPU beside a card: only a container that names it gets it.
func TestGPUThatTheDeviceAllLacksIsGivenByName(t *testing.T) {
	const spec = `{"cdiVersion":"0.6.0","kind":"amd.com/gpu","devices":[
		{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/dri/renderD128"}]}},
		{"name":"1","containerEdits":{"deviceNodes":[{"path":"/dev/dri/renderD129"}]}},
		{"name":"0000:12:00.0","containerEdits":{"deviceNodes":[{"path":"/dev/dri/renderD129"}]}},
		{"name":"all","containerEdits":{"deviceNodes":[{"path":"/dev/dri/renderD128"}]}}]}`
	for in, want := range map[string]string{
		"": "0", "AMD_VISIBLE_DEVICES=all": "0", "GPU_COUNT=1": "0", "GPU_COUNT=all": "0", "AMD_VISIBLE_DEVICES=1": "1",
		"AMD_VISIBLE_DEVICES=0-1": "0 1", "AMD_VISIBLE_DEVICES=0000:12:00.0": "1",
	} {
		got, err := asked(t, spec, unitAll, strings.Fields(in)...)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	_, err := asked(t, spec, unitAll, "GPU_COUNT=2")
	require.ErrorContains(t, err, "this machine gives 1")
}
