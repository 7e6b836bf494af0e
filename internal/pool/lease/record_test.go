package lease

import (
	"strings"
	"testing"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/stretchr/testify/require"
)

func sample() record {
	return record{
		kind: Task, boot: "b", container: "c1", bundle: "/run/\"odd\" ü", pidFile: "/run/c1/init.pid", cgroup: "c1",
		calls: []process{{7, 1 << 60}, {1<<31 - 1, 0}}, phase: entered, since: time.UnixMilli(1), called: time.UnixMilli(1700000000123), gpus: 64,
	}
}

func TestRecordRoundTrip(t *testing.T) {
	data, err := sample().encode()
	require.NoError(t, err)
	require.Len(t, data, recordSize)
	require.Equal(t, byte('\n'), data[recordSize-1])
	got, err := decodeRecord(data)
	require.NoError(t, err)
	require.Equal(t, sample(), *got)
}

func TestRecordRoundTripForEachKind(t *testing.T) {
	for kind, r := range map[Kind]record{
		Container: {boot: "b", container: "c1", bundle: "/b", pidFile: "/b/init.pid", cgroup: "c1", init: process{9, 1}, calls: []process{{7, 1}}},
		Pod:       {boot: "b", container: "team-a/train-0/main"},
	} {
		r.kind, r.phase, r.since, r.called = kind, holding, time.UnixMilli(1), time.UnixMilli(2)
		got, err := decodeRecord(r.appendTo(nil))
		require.NoError(t, err)
		require.Equal(t, r, *got)
	}
}

// As the version before kinds wrote it. What it would not understand it counts as held.
func TestRecordWithoutKindIsATask(t *testing.T) {
	got, err := decodeRecord([]byte(`{"container":"c1","phase":"entered","gpus":1,"since":1,"called":2,"calls":[],"init":[[9,5]],"boot":"b","bundle":"/b","pid_file":"/p","cgroup":"c1"}`))
	require.NoError(t, err)
	require.Equal(t, Task, got.kind)
	require.NotContains(t, string(sample().appendTo(nil)), "kind")
}

func TestRecordOfALaterVersionIsHeld(t *testing.T) {
	_, err := decodeRecord([]byte(`{"format_version":2,"holder":["c1"]}`))
	var newer *rawjson.NewerError
	require.ErrorAs(t, err, &newer)
	l := Leases{GPUs: []string{"a"}, Dir: "/run/x"}
	s := slots{{name: "a", fd: -1, raw: []byte(`{"format_version":2}`)}}
	l.judgeAll(s, "b", time.UnixMilli(1))
	require.True(t, s[0].live)
	require.Contains(t, s[0].doubt, "it has format 2 of a later version")
	_, err = decodeCounters([]byte(`{"format_version":2}`))
	require.ErrorAs(t, err, &newer)
}

func TestRecordThatDoesNotFitIsRefused(t *testing.T) {
	r := sample()
	r.bundle = strings.Repeat("x", recordSize)
	_, err := r.encode()
	require.ErrorContains(t, err, "cannot record the lease of container c1")
}

func TestDecodeRecordErrors(t *testing.T) {
	whole := string(sample().appendTo(nil))
	for _, c := range []struct{ name, data, want string }{
		{"empty", "", ""},
		{"blank", strings.Repeat(" ", 10) + "\n", ""},
		{"cut", whole[:50], "it ends too early"},
		{"a list", "[]", "it is a list, not an object"},
		{"null", "null", `phase is ""`},
		{"another phase", strings.Replace(whole, "entered", "gone", 1), `phase is "gone"`},
		{"no container", strings.Replace(whole, `"c1"`, `""`, 1), "it lacks container"},
		{"a call that is none", strings.Replace(whole, "[7,", "[0,", 1), "0 is not a process id"},
		{"a call of three", strings.Replace(whole, "[7,", "[7,7,", 1), "is not a pair"},
		{"a call of text", strings.Replace(whole, "[7,", `["7",`, 1), "it is a string, not a number"},
		{"many calls", strings.Replace(whole, "[7,", strings.Repeat("[1,1],", 8)+"[7,", 1), "calls are 10, more than 8"},
		{"a time in words", strings.Replace(whole, `"since":1,`, `"since":"now",`, 1), "since: it is a string"},
		{"another kind", strings.Replace(whole, "}", `,"kind":"vm"}`, 1), `kind is "vm"`},
		{"a container with the phase of a task", strings.Replace(whole, "}", `,"kind":"container"}`, 1), `phase is "entered"`},
		{"a task with that of a container", strings.Replace(whole, "entered", "holding", 1), `phase is "holding"`},
		{"zeros", "\x00\x00", "it is not JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := decodeRecord([]byte(c.data))
			require.Nil(t, got)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(sample().appendTo(nil))
	f.Add([]byte(" \n"))
	f.Add([]byte(`{"container":"n/p/c","kind":"pod","phase":"holding","boot":"b"}`))
	f.Add([]byte(`{"container":"a","phase":"ended","boot":"b","pid_file":"/p","cgroup":"a"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRecord(data)
		if r == nil || err != nil {
			return
		}
		again, err := decodeRecord(r.appendTo(nil))
		require.NoError(t, err)
		require.Equal(t, r, again)
		require.LessOrEqual(t, len(r.calls), maxCalls)
	})
}

func TestCountersRestartWhenDamaged(t *testing.T) {
	c := Counters{1, 2, 3, 1 << 62}
	got, err := decodeCounters(pad(c.appendTo(nil)))
	require.NoError(t, err)
	require.Equal(t, c, got)

	w := newWorld(t, true)
	l := w.leases("a")
	_, err = l.Take(w.call("c1", w.spawn("")), Want{Count: 1})
	require.NoError(t, err)
	w.put(l.path("counters"), "{")
	_, _, err = l.Read()
	require.ErrorContains(t, err, "remove it, and they begin again")
	_, err = l.Take(w.call("c2", w.spawn("")), Want{Count: 1})
	require.ErrorContains(t, err, "cannot lease 1 GPU")
	_, c, err = l.Read()
	require.NoError(t, err)
	require.Equal(t, Counters{Busy: 1}, c)
}

// Programs of other versions read these files.
func TestRecordFileFormat(t *testing.T) {
	r := record{
		kind: Pod, boot: "b", container: "n/p/c", bundle: "/b", pidFile: "/p", cgroup: "g", init: process{7, 9},
		calls: []process{{1, 2}, {3, 4}}, phase: holding, since: time.UnixMilli(123), called: time.UnixMilli(456),
		gpus: 3, stepHash: "abc", remainingSince: 77,
	}
	require.Equal(t, `{"format_version":1,"container":"n/p/c","phase":"holding","gpus":3,"since":123,"called":456,"calls":[[1,2],[3,4]],`+
		`"init":[[7,9]],"boot":"b","bundle":"/b","pid_file":"/p","cgroup":"g","kind":"pod","like":"abc","left":77}`,
		string(r.appendTo(nil)))
}
