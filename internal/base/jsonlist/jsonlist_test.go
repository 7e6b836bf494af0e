package jsonlist

import (
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

const most = 1 << 20

// numbers collects numbers below 3.
func numbers(text string) (out []int, err error) {
	err = ReadMember(strings.NewReader(text), most, "list", func(d *json.Decoder) error {
		var n int
		if d.Decode(&n) != nil || n > 2 {
			return errors.New("not a small number")
		}
		out = append(out, n)
		return nil
	})
	return out, err
}

func TestListOfAnObjectIsRead(t *testing.T) {
	for text, want := range map[string][]int{`{"list":[1,2]}`: {1, 2}, `{"a":{"list":[9]},"list":[1],"b":[[]]} `: {1}, `{"list":[]}`: nil} {
		got, err := numbers(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{"": ErrForm.Error(), "[1]": ErrForm.Error(), `{}`: ErrForm.Error(), `{"list":null}`: ErrForm.Error(),
		`{"list":[1`: ErrForm.Error(), `{"list":[1]`: ErrForm.Error(), `{"list":[1],"list":[2]}`: ErrForm.Error(), `{"list":[1]}}`: errMore.Error(), `{"list":[3]}`: "not a small number",
		`{"a":"` + strings.Repeat("x", most) + `","list":[1]}`: "more than 1048576 bytes", `{"list":[1]}` + strings.Repeat(" ", most): "more than"} {
		_, err := numbers(text)
		require.ErrorContains(t, err, want, "%.40q", text)
	}
}

// A list that was cut by the network is not a wrong JSON.
func TestBrokenConnectionIsNamed(t *testing.T) {
	for _, text := range []string{"", `{"a":`, `{"list":[1,`, `{"list":[1]}`} {
		broken := errors.New("reset by peer")
		err := ReadMember(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), most, "list",
			func(d *json.Decoder) error {
				var n int
				if d.Decode(&n) != nil {
					return ErrForm
				}
				return nil
			})
		require.ErrorIs(t, err, ErrRead, text)
		require.ErrorIs(t, err, broken, text)
	}
}

func TestOnlyTheFirstElementsAreDecoded(t *testing.T) {
	type element struct{ A, B, C, D string }
	data := []byte("[" + strings.Repeat("{},", most) + "{}]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out, err := First[element](data, 64)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Len(t, out, 64)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(most))
	out, err = First[element]([]byte("null"), 64)
	require.NoError(t, err)
	require.Nil(t, out)
	_, err = First[element]([]byte(`{}`), 64)
	require.Error(t, err)
}

func FuzzList(f *testing.F) {
	f.Add(`{"a":[{}],"list":[1,2]}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := numbers(text)
		if err == nil {
			var all map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(text), &all))
			want := []int{}
			require.NoError(t, json.Unmarshal(all["list"], &want))
			require.Equal(t, want, append([]int{}, got...))
		}
	})
}
