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
	devices, err := cdispec.Find(specs, []string{"amd.com/gpu=GPU-00a1b2c3d4e50001", "amd.com/gpu=3", "amd.com/gpu=2"})
	require.NoError(t, err)
	return SelectLeased(specs, devices, []string{"AMD_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}, env, nil)
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
		"GPU_COUNT=400":                                    {Count: 400}, // the lease says that there are not so many
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
	require.ErrorContains(t, err, `"0" is no GPU that this unit gives; there are: 1 (`)
}

// One GPU under two names would be two leases.
func TestEachDeviceMustBeOneGPU(t *testing.T) {
	s, err := cdispec.Decode("/x.json", []byte(cards(2)[:len(cards(2))-2]+`,{"name":"empty","containerEdits":{}}]}`))
	require.NoError(t, err)
	specs := []*cdispec.Spec{s}
	for names, text := range map[string]string{
		"1 GPU-00a1b2c3d4e50001": "cannot lease GPU GPU-00a1b2c3d4e50001: it has the device nodes of 1; a GPU " +
			"must be there once, or two tasks could lease it",
		"0 empty": "cannot lease GPU empty: CDI spec /x.json lists no device nodes of it, by " +
			"which GPUs are told apart",
	} {
		var full []string
		for name := range strings.FieldsSeq(names) {
			full = append(full, "amd.com/gpu="+name)
		}
		devices, err := cdispec.Find(specs, full)
		require.NoError(t, err)
		_, err = SelectLeased(specs, devices, nil, nil, nil)
		require.EqualError(t, err, text)
	}
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
