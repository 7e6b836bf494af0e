package procfile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzParseStat(f *testing.F) {
	f.Add("12 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 5\n")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseStat(text); err != nil {
			require.Zero(t, s)
		}
	})
}

func TestParseStat(t *testing.T) {
	const (
		rest    = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 18 4711 5\n"
		threads = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 4 18 4711 5\n"
	)
	for _, c := range []struct {
		name, text string
		alive      bool
		bad        string
	}{
		{"plain", "12 (runc) S" + rest, true, ""},
		{"spaces and parentheses in its name", "12 (x) R 1 (y S) 2) S" + rest, true, ""},
		{"a newline in its name", "12 (a\nb) D" + rest, true, ""},
		{"stopped", "12 (a) T" + rest, true, ""},
		{"zombie", "12 (a) Z" + rest, false, ""},
		{"zombie with threads that still end", "12 (a) Z" + threads, true, ""},
		{"dead", "12 (a) X" + rest, false, ""},
		{"cut", "12 (a) S 1 2 3", false, "it has no start time"},
		{"no parent", "12 (a) S x" + strings.TrimPrefix(rest, " 1"), false, "it has no parent"},
		{"empty", "", false, "it has no start time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := ParseStat(c.text)
			if c.bad != "" {
				require.ErrorContains(t, err, c.bad)
				return
			}
			require.NoError(t, err)
			require.Equal(t, Stat{Parent: 1, Start: 4711, Alive: c.alive}, s)
		})
	}
}

// A task chooses the names of its mounts.
func FuzzTypeOfMount(f *testing.F) {
	const mounts = "36 35 0:31 / /proc rw - proc proc rw\n40 35 0:32 / /dev/pts rw,nosuid shared:1 - devpts devpts rw\n" +
		"41 35 0:33 / /x\\040-\\040devpts rw - fuse x rw\n"
	f.Add(mounts, 40)
	f.Fuzz(func(t *testing.T, text string, id int) {
		kind := TypeOfMount(strings.NewReader(text), id)
		require.False(t, kind != "" && !strings.Contains(text, " - "))
	})
	for id, want := range map[int]string{40: "devpts", 41: "fuse", 4: "", 0: ""} {
		require.Equal(f, want, TypeOfMount(strings.NewReader(mounts), id))
	}
}
