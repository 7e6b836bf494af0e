package visible

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// wanted is what a task with this environment asks of a unit that gives the GPUs
// 1, 3 and 2 of four, in this order.
func wanted(t testing.TB, env ...string) (lease.Want, error) {
	t.Helper()
	s, err := cdispec.Decode("/x.json", []byte(cards(4)))
	require.NoError(t, err)
	specs := []*cdispec.Spec{s}
	gpus, err := Find(specs, []string{"amd.com/gpu=GPU-00a1b2c3d4e50001", "amd.com/gpu=3", "amd.com/gpu=2"})
	require.NoError(t, err)
	var w lease.Want
	err = SelectLeased(&w, gpus, []string{"AMD_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}, env)
	return w, err
}

func TestTaskChoosesNumberAndGPUs(t *testing.T) {
	for env, want := range map[string]lease.Want{
		"":                                                 {Count: 1},
		"GPU_COUNT=2":                                      {Count: 2},
		"GPU_COUNT= 2 ":                                    {Count: 2},
		"GPU_COUNT=03":                                     {Count: 3},
		"GPU_COUNT=all":                                    {Count: 3},
		"GPU_COUNT=ALL":                                    {Count: 3},
		"GPU_COUNT=0":                                      {},
		"GPU_COUNT=1;GPU_COUNT=2":                          {Count: 2},
		"GPU_COUNT=400":                                    {Count: 400}, // the lease reports that there are not so many
		"AMD_VISIBLE_DEVICES=all":                          {Count: 1},   // images set this
		"AMD_VISIBLE_DEVICES= ALL ":                        {Count: 1},
		"NVIDIA_VISIBLE_DEVICES=all":                       {Count: 1},
		"AMD_VISIBLE_DEVICES=none":                         {Of: []int{}},
		"AMD_VISIBLE_DEVICES=":                             {Of: []int{}},
		"AMD_VISIBLE_DEVICES=1":                            {Of: []int{0}, Count: 1},
		"AMD_VISIBLE_DEVICES=05:00.0":                      {Of: []int{2}, Count: 1},
		"AMD_VISIBLE_DEVICES=1-3":                          {Of: []int{0, 1, 2}, Count: 3},
		"AMD_VISIBLE_DEVICES=3,2":                          {Of: []int{1, 2}, Count: 2},
		"AMD_VISIBLE_DEVICES=3,2;GPU_COUNT=1":              {Of: []int{1, 2}, Count: 1},
		"AMD_VISIBLE_DEVICES=3,2;GPU_COUNT=all":            {Of: []int{1, 2}, Count: 2},
		"AMD_VISIBLE_DEVICES=3,2;GPU_COUNT=0":              {Of: []int{1, 2}},
		"AMD_VISIBLE_DEVICES=3,2;GPU_COUNT=3":              {Of: []int{1, 2}, Count: 3},
		"AMD_VISIBLE_DEVICES=all;GPU_COUNT=2":              {Count: 2},
		"AMD_VISIBLE_DEVICES=none;GPU_COUNT=2":             {Of: []int{}},
		"GPU_COUNT=":                                       {Count: 1},
		"AMD_VISIBLE_DEVICES=3,2;GPU_COUNT= ":              {Of: []int{1, 2}, Count: 2},
		"AMD_VISIBLE_DEVICES=3,2;NVIDIA_VISIBLE_DEVICES=3": {Of: []int{1}, Count: 1},
	} {
		got, err := wanted(t, strings.Split(env, ";")...)
		require.NoError(t, err, env)
		require.Equal(t, want, got, env)
	}
}

func TestWrongCountIsRefusedByName(t *testing.T) {
	for _, value := range []string{"two", "-1", "+1", "1.5", "0x1", "1e3", "1,2", "4294967296",
		"99999999999999999999", "none", strings.Repeat("9", 5000)} {
		_, err := wanted(t, "GPU_COUNT="+value)
		require.EqualError(t, err, fmt.Sprintf("cannot give the task GPU_COUNT=%s GPUs: it is not a whole "+
			"number or all", shorten(value)))
	}
	_, err := wanted(t, "AMD_VISIBLE_DEVICES=0")
	require.ErrorContains(t, err, `"0" is not a GPU that this machine gives; there are: 1 (`)
}

func TestGPUWithoutDeviceNodesHasOneName(t *testing.T) {
	const empty = `{"name":"empty","containerEdits":{}},{"name":"void"}]}`
	s, err := cdispec.Decode("/x.json", []byte(`{"cdiVersion":"0.5.0","kind":"amd.com/gpu","devices":[{"name":"all"},`+empty))
	require.NoError(t, err)
	gpus, err := Find([]*cdispec.Spec{s}, []string{"amd.com/gpu=empty"})
	require.NoError(t, err)
	require.NoError(t, Describe(gpus))
	require.Equal(t, "empty", gpus[0].String())
	_, err = Find([]*cdispec.Spec{s}, []string{"amd.com/gpu=all"})
	require.EqualError(t, err, "cannot give the task a GPU: CDI spec /x.json describes no single GPU")
}

func FuzzWant(f *testing.F) {
	for _, s := range []string{"", "0", "2", "all", " 3 ", "-1", "99999999999999999999"} {
		f.Add(s, "1-3")
		f.Add(s, "all")
		f.Add(s, "none")
	}
	f.Fuzz(func(t *testing.T, count, list string) {
		w, err := wanted(t, "GPU_COUNT="+count, "AMD_VISIBLE_DEVICES="+list)
		if err != nil {
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) || len(err.Error()) > 1000 {
				t.Fatalf("%q", err)
			}
			return
		}
		if w.Count < 0 || len(w.Of) > 3 {
			t.Fatalf("%+v", w)
		}
		for i, g := range w.Of {
			if g < 0 || g > 2 || i > 0 && g <= w.Of[i-1] {
				t.Fatalf("%+v", w)
			}
		}
	})
}
