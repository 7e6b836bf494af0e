package taskrecord

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var began = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func handleOf(n int) string { return fmt.Sprintf("0badcafe-0000-4000-8000-%012d", n) }

func intPointer(n int) *int { return &n }

// samples returns readings of counters that grow.
func samples(n, counters int, from time.Time, every time.Duration) (all []Sample) {
	for i := range n {
		s := NewSample(from.Add(time.Duration(i)*every), counters)
		for c := range s.Values {
			if c%7 != 3 { // some are never read
				s.Values[c] = int64(i * (c + 1) * 1000)
			}
		}
		all = append(all, s)
	}
	return all
}

// written writes a whole record.
func written(t *testing.T, s Store, n, exit int) Record {
	t.Helper()
	r := Record{Head: Head{Handle: handleOf(n), Boot: "b", Started: began, GPUs: []GPU{{Name: "0000:03:00.0"}}},
		GPUs: map[string][]Sample{}}
	w, err := s.Begin(r.Head)
	require.NoError(t, err)
	for chunk := range 3 {
		from := began.Add(time.Duration(chunk) * time.Minute)
		more, gpu := samples(12, NumCounters, from, 5*time.Second), samples(60, NumGPUCounters, from, time.Second)
		require.NoError(t, w.Samples("", more))
		require.NoError(t, w.Samples("0000:03:00.0", gpu))
		r.Machine, r.GPUs["0000:03:00.0"] = append(r.Machine, more...), append(r.GPUs["0000:03:00.0"], gpu...)
		e := Event{At: from, Kind: Dump, GPU: "0000:03:00.0"}
		require.NoError(t, w.Event(e))
		r.Events = append(r.Events, e)
	}
	r.End = &End{Ended: began.Add(3 * time.Minute), Ending: Exited, Exit: intPointer(exit)}
	require.NoError(t, w.End(*r.End))
	return r
}

func TestRecordIsReadAsWritten(t *testing.T) {
	s := Store{t.TempDir()}
	_, err := s.Find("")
	require.ErrorIs(t, err, ErrNoneFailed)
	want := written(t, s, 1, 1)
	f, err := s.Find("")
	require.NoError(t, err)
	got, err := f.Read()
	require.NoError(t, err)
	require.Equal(t, want, got)
	st, err := os.Stat(f.path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
}

// A kill or a damaged byte loses what comes after it, and never the store. Each round cuts
// or changes a file at random, and then does what a recorder does at its start.
func TestStoreOutlivesKillsAndDamage(t *testing.T) {
	random := rand.New(rand.NewSource(36))
	first := Store{t.TempDir()}
	whole := written(t, first, 1, 1)
	written(t, first, 2, 0)
	one, err := os.ReadFile(first.path(handleOf(1), failed))
	require.NoError(t, err)
	other, err := os.ReadFile(first.path(handleOf(2), succeeded))
	require.NoError(t, err)
	kept := 0
	for round := range 200 {
		s := Store{t.TempDir()}
		require.NoError(t, os.WriteFile(s.path(handleOf(2), succeeded), other, 0o600))
		path := s.path(handleOf(1), failed)
		data := bytes.Clone(one)
		at := random.Intn(len(data))
		running := round%2 == 0
		switch {
		case running: // killed in a write
			data = data[:at]
		default:
			data[at] ^= byte(1 + random.Intn(255))
		}
		require.NoError(t, os.WriteFile(path, data, 0o600))
		if running {
			require.NoError(t, os.Rename(path, s.path(handleOf(1), ".open")))
		}
		require.NoError(t, s.Settle("b", func(string) bool { return false }))
		require.NoError(t, s.Prune(time.Now(), Limits{1 << 30, time.Hour, time.Hour}))
		all, err := s.List()
		require.NoError(t, err)
		for _, f := range all {
			require.False(t, f.Running)
			r, err := f.Read()
			if err != nil { // its first part is damaged
				require.Equal(t, handleOf(1), f.Handle)
				continue
			}
			require.True(t, r.End != nil || r.Damaged)
			if f.Handle == handleOf(1) {
				kept++
				require.Equal(t, whole.Machine[:len(r.Machine)], append([]Sample{}, r.Machine...))
			}
		}
		require.True(t, s.Ended(handleOf(2)), "the other record")
	}
	require.Greater(t, kept, 100)
}

func TestRecordIsContinuedAfterItsLastValidPart(t *testing.T) {
	s := Store{t.TempDir()}
	w, err := s.Begin(Head{Handle: handleOf(1), Started: began})
	require.NoError(t, err)
	require.NoError(t, w.Samples("", samples(3, NumCounters, began, time.Second)))
	require.NoError(t, w.Close())
	path := s.path(handleOf(1), running)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("\x1f\x8b\x08half of a part")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	w, r, err := s.Resume(handleOf(1))
	require.NoError(t, err)
	require.Len(t, r.Machine, 3)
	require.NoError(t, w.Samples("", samples(2, NumCounters, began, time.Second)))
	require.NoError(t, w.End(End{Ending: Exited, Exit: intPointer(0)}))
	one, err := s.Find(handleOf(1))
	require.NoError(t, err)
	r, err = one.Read()
	require.NoError(t, err)
	require.False(t, r.Damaged)
	require.Len(t, r.Machine, 5)
}

func TestOldestRecordsAreRemovedAndFailedOnesLater(t *testing.T) {
	s := Store{t.TempDir()}
	for n := range 6 { // the even ones succeeded
		written(t, s, n, n%2)
		for _, ending := range []string{succeeded, failed} {
			at := began.Add(time.Duration(n) * time.Hour)
			_ = os.Chtimes(s.path(handleOf(n), ending), at, at)
		}
	}
	ref, err := s.KeepDump(handleOf(1), "0000:03:00.0", "/sys/x", strings.NewReader("dump"))
	require.NoError(t, err)
	have := func() (names []string) {
		all, err := s.List()
		require.NoError(t, err)
		for _, f := range all {
			names = append(names, f.Handle[len(f.Handle)-1:])
		}
		return names
	}
	all, err := s.List()
	require.NoError(t, err)
	size := all[0].Size
	limits := Limits{Bytes: 100 * size, Age: 24 * time.Hour, FailedAge: 96 * time.Hour}
	require.NoError(t, s.Prune(began.Add(26*time.Hour+time.Minute), limits))
	require.Equal(t, []string{"5", "4", "3", "1"}, have(), "two are older than a day")
	limits.Bytes = 3*size + 10
	require.NoError(t, s.Prune(began.Add(10*time.Hour), limits))
	require.Equal(t, []string{"5", "3"}, have()[:2])
	limits.Bytes = 2 * size
	require.NoError(t, s.Prune(began.Add(10*time.Hour), limits))
	require.Equal(t, []string{"5", "3"}, have(), "whole records, with their dumps")
	require.NoFileExists(t, filepath.Join(s.Dir, ref.File))
}

func TestLargeDumpIsCut(t *testing.T) {
	s := Store{t.TempDir()}
	ref, err := s.KeepDump(handleOf(1), "g", "/sys/x", &zeros{left: MaxDump + 1})
	require.NoError(t, err)
	require.True(t, ref.Cut)
	require.EqualValues(t, MaxDump, ref.Size)
	_, err = s.KeepDump(handleOf(1), "g", "/sys/x", rand.New(rand.NewSource(1)))
	require.ErrorContains(t, err, "more than 8388608 bytes compressed")
	require.NoFileExists(t, filepath.Join(s.Dir, handleOf(1)+"-2"+dump))
}

type zeros struct{ left int }

func (z *zeros) Read(p []byte) (int, error) {
	n := min(len(p), z.left)
	z.left -= n
	clear(p[:n])
	return n, nil
}

// A later program may have other counters.
func TestCountersAreReadByName(t *testing.T) {
	columns := columnsOf([]string{"cpu_us", "of a later version", "disk_free_bytes"}, Counters[:])
	got, err := decodeSamples([][]int64{{5, 1, 2, 3}}, columns, NumCounters)
	require.NoError(t, err)
	require.EqualValues(t, 5, got[0].At)
	require.EqualValues(t, 1, got[0].Values[CPUUsage])
	require.EqualValues(t, 3, got[0].Values[DiskFree])
	require.EqualValues(t, Missing, got[0].Values[MemoryUsed])
	for i, name := range Counters {
		require.NotEmpty(t, name, i)
	}
	for i, name := range GPUCounters {
		require.NotEmpty(t, name, i)
	}
}

// file returns the bytes of parts.
func file(t testing.TB, parts ...part) (all []byte) {
	for _, p := range parts {
		data, err := p.encode()
		require.NoError(t, err)
		all = append(all, data...)
	}
	return all
}

// parts returns one part of each kind, the head first.
func parts() []part {
	return []part{newHead(Head{Handle: handleOf(1), Started: began, GPUs: []GPU{{Name: "0000:03:00.0"}}}),
		newSamples("", samples(3, NumCounters, began, time.Second)),
		newSamples("0000:03:00.0", samples(3, NumGPUCounters, began, time.Second)),
		{Event: &Event{At: began, Kind: Dump, GPU: "0000:03:00.0"}},
		{Evidence: &Evidence{Kernel: []Line{{At: began, Text: "x"}}, Lost: 1}},
		{End: &End{Ended: began.Add(time.Minute), Ending: Exited, Exit: intPointer(1)}}}
}

func TestPartOfALaterProgramIsSkippedAndALaterVersionIsNot(t *testing.T) {
	later := func(line string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write([]byte(line))
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return b.Bytes()
	}
	all := parts()
	r, err := Decode(slices.Concat(file(t, all[:2]...), later(`{"of_a_later_program": 1}`), file(t, all[2:]...)))
	require.NoError(t, err)
	require.False(t, r.Damaged)
	require.Len(t, r.Machine, 3)
	require.NotNil(t, r.End)
	_, err = Decode(later(`{"head": {"format_version": 2}}`))
	require.ErrorContains(t, err, "format 2 of a later version")
	for _, line := range []string{`{"samples": [[1, 2]]}`, `{"event": 1}`, "", "{"} {
		r, err = Decode(append(file(t, all[0]), later(line)...))
		require.NoError(t, err)
		require.True(t, r.Damaged, line)
	}
	_, err = Decode(file(t, all[1]))
	require.Error(t, err, "a file without a head")
}

func TestLargePartIsNotWritten(t *testing.T) {
	_, err := part{Evidence: &Evidence{Kernel: []Line{{Text: strings.Repeat("x", maxPart)}}}}.encode()
	require.ErrorContains(t, err, "more than 4194304")
}

func FuzzDecode(f *testing.F) {
	all := parts()
	f.Add([]byte{})
	f.Add(file(f, all[0]))
	f.Add(file(f, all...))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, valid, err := decodeValid(data)
		if err != nil {
			return
		}
		require.LessOrEqual(t, valid, len(data))
		again, _, err := decodeValid(data[:valid])
		require.NoError(t, err)
		require.False(t, again.Damaged)
		require.Len(t, again.Machine, len(r.Machine))
		TimelineOf(&r, 90)
	})
}

// FuzzParts changes the content of parts, which FuzzDecode never reaches because of the checksum.
func FuzzParts(f *testing.F) {
	lineOf := func(p part) []byte {
		line, err := json.Marshal(p)
		require.NoError(f, err)
		return line
	}
	for _, p := range parts()[1:] {
		f.Add(lineOf(parts()[0]), lineOf(p))
	}
	f.Add([]byte(`{"head":{"format_version":1}}`), []byte(`{"samples":[[0]]}`))
	f.Fuzz(func(t *testing.T, head, line []byte) {
		var data []byte
		for _, content := range [][]byte{head, line, head} {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, err := z.Write(content)
			require.NoError(t, err)
			require.NoError(t, z.Close())
			data = append(data, b.Bytes()...)
		}
		r, valid, err := decodeValid(data)
		if err != nil {
			return
		}
		require.Equal(t, r.Damaged, valid < len(data))
		for _, s := range r.Machine {
			require.Len(t, s.Values, NumCounters)
		}
		for _, all := range r.GPUs {
			for _, s := range all {
				require.Len(t, s.Values, NumGPUCounters)
			}
		}
		for _, c := range TimelineOf(&r, 90).Charts {
			require.Len(t, c.Values, 90)
			require.False(t, math.IsNaN(c.Most) || math.IsInf(c.Most, 0), c.Name)
		}
	})
}

// A recorder that starts again ends the records of tasks that it did not see end.
func TestTaskOfAnEarlierBootWasEndedByTheReboot(t *testing.T) {
	for boot, want := range map[string]Ending{"b": Unseen, "later": Reboot} {
		s := Store{t.TempDir()}
		w, err := s.Begin(Head{Handle: handleOf(1), Boot: "b", Started: began})
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, s.Settle(boot, func(string) bool { return false }))
		f, err := s.Find(handleOf(1))
		require.NoError(t, err)
		r, err := f.Read()
		require.NoError(t, err)
		require.Equal(t, want, r.End.Ending)
	}
}
