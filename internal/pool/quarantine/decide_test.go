package quarantine

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

var start = time.Date(2026, 8, 1, 14, 0, 0, 0, time.UTC)

// names are the names of the GPUs of a test, a board each.
var names = []string{"0000:03:00.0", "0000:43:00.0", "0000:83:00.0"}

// sign is a GPU as one letter describes it.
func sign(i int, letter byte) (s Reading, here bool) {
	s = Reading{Slot: gpu.Slot{PCI: names[i], Index: i, GFX: "gfx90a"}, Up: true, State: health.Healthy}
	critical := func(faults ...health.Fault) { s.State, s.Faults = health.Critical, faults }
	switch letter {
	case '.':
	case 'w':
		s.State, s.Faults = health.Warning, []health.Fault{{Kind: health.Hot, Component: "junction", Value: 92, Limit: 100}}
	case 'h':
		critical(health.Fault{Kind: health.Hang, Signals: []string{"kernel_log"}})
	case 'H':
		critical(health.Fault{Kind: health.Hang, Signals: []string{"kernel_log", "devcoredump"}})
	case 'n':
		s.Up = false
		critical(health.Fault{Kind: health.Hang, Signals: []string{"timeout"}}, health.Fault{Kind: health.Unreadable, File: "gpu_metrics"})
	case 'd': // down, and no one reports why
		s.Up, s.State = false, health.Unknown
	case '1', '2':
		critical(health.Fault{Kind: health.UncorrectableErrors, Value: float64(letter - '0')})
	case 'b':
		critical(health.Fault{Kind: health.BadPages, Value: 3})
	case 'r', 'R': // reset, and healthy again
		n := map[byte]float64{'r': 1, 'R': 2}[letter]
		s.State, s.Faults = health.Warning, []health.Fault{{Kind: health.Reset, Value: n}}
	case 'e': // a sign of its hardware, and no reason to keep it from tasks
		s.State, s.Faults = health.Warning, []health.Fault{{Kind: health.CorrectableErrors, Value: 40}}
	case 'c':
		critical(health.Fault{Kind: health.Hot, Component: "junction", Value: 101, Limit: 100})
	case 'l': // critical, without a reported cause
		critical()
	case 'o': // no program can compute on it
		critical(health.Fault{Kind: health.NoCompute, Detail: "no /dev/kfd"})
	case 's': // its node does not open
		s.Node = NodeStuck
	case 'k':
		s.GFX = ""
	case 't': // well, and a task has it open
		s.Users = []string{"a-task"}
	case 'u':
		s.State = health.Unknown
	case 'x':
		return s, false
	default:
		panic("no sign " + string(letter))
	}
	return s, true
}

// seriesOf reads a series: a line for each GPU, a letter for each look, "5*h" for five of
// them. ? in the first line is a look that sees nothing; a line "looks:" has what more
// happens, as "40:return 0".
func seriesOf(t *testing.T, text string) (gpus []string, events map[int][]string) {
	t.Helper()
	events = map[int][]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if list, is := strings.CutPrefix(line, "then:"); is {
			for e := range strings.SplitSeq(list, ",") {
				var at int
				where, what, ok := strings.Cut(strings.TrimSpace(e), ":")
				require.True(t, ok, e)
				_, err := fmt.Sscan(where, &at)
				require.NoError(t, err)
				events[at] = append(events[at], what)
			}
			continue
		}
		var b strings.Builder
		for word := range strings.FieldsSeq(line) {
			n, letter := 1, word
			if count, of, many := strings.Cut(word, "*"); many {
				_, err := fmt.Sscan(count, &n)
				require.NoError(t, err)
				letter = of
			}
			b.WriteString(strings.Repeat(letter, n))
		}
		gpus = append(gpus, b.String())
	}
	for _, g := range gpus {
		require.Len(t, g, len(gpus[0]))
	}
	return gpus, events
}

// play goes through a series, a look each 15 s, and reports every change.
func play(t *testing.T, text string) string {
	t.Helper()
	gpus, events := seriesOf(t, text)
	var out strings.Builder
	var r Record
	at, policy, boot, check := start, Auto, "b1", ""
	checks := map[string]HealthCheck{}
	tell := func(before Record, now Record) {
		for _, g := range now.GPUs {
			was := before.Find(g.Name)
			if was != nil && g.PendingHealthCheck != nil && (was.PendingHealthCheck == nil || *was.PendingHealthCheck != *g.PendingHealthCheck) {
				fmt.Fprintf(&out, "%6s  GPU %d  awaits      %s; due: %t, stuck: %t  [%s]\n", at.Sub(start), g.Index, g.PendingHealthCheck.Text, g.PendingHealthCheck.Due, g.PendingHealthCheck.Stuck, g.Text())
			}
			switch {
			case was != nil && was.State == g.State && was.QuarantinedBy == g.QuarantinedBy:
				continue
			case was == nil && g.State == InService:
				continue
			}
			fmt.Fprintf(&out, "%6s  GPU %d  %-10s  %s", at.Sub(start), g.Index, g.State, g.Reason)
			if text := g.Text(); text != "" {
				fmt.Fprintf(&out, "  [%s]", text)
			}
			out.WriteByte('\n')
		}
		for _, g := range before.GPUs {
			if now.Find(g.Name) == nil {
				fmt.Fprintf(&out, "%6s  GPU %d  forgotten\n", at.Sub(start), g.Index)
			}
		}
	}
	for i := range len(gpus[0]) {
		at = start.Add(time.Duration(i) * 15 * time.Second)
		for _, e := range events[i] {
			verb, rest, _ := strings.Cut(e, " ")
			before, n := r, 0
			fmt.Sscan(rest, &n)
			var err error
			switch verb {
			case "policy":
				policy = Policy(rest)
			case "boot":
				boot = rest
			case "gpu-health-check":
				check = rest
			case "begin", "lost", "passed", "failed", "late", "not_run":
				p := checks[names[n]]
				if verb == "begin" {
					p = HealthCheck{Name: names[n], Command: check, Began: at}
				}
				p.Running, p.Ended, p.End = verb == "begin", at, map[string]HealthCheckEnd{"passed": Passed, "failed": Failed, "late": Failed, "not_run": NotRun}[verb]
				p.Late, p.Reason = verb == "late", "/opt/check is missing"
				fmt.Sscan(rest, &n, &p.Exit)
				checks[names[n]] = p
			case "quarantine":
				r, err = r.Quarantine(names[n], "swap the riser", at)
			case "return":
				r, _, err = r.Return(names[n], at)
			default:
				t.Fatalf("no event %q", e)
			}
			if err != nil {
				fmt.Fprintf(&out, "%6s  %s\n", at.Sub(start), err)
			}
			tell(before, r)
		}
		l := Look{At: at, Policy: policy, Boot: boot, Driver: "1", HealthCheck: check, HealthChecks: slices.Collect(maps.Values(checks))}
		if gpus[0][i] == '?' {
			l.Unknown = "the exporter does not answer"
		}
		for g := range gpus {
			if l.Unknown != "" {
				continue
			}
			if s, here := sign(g, gpus[g][i]); here {
				l.GPUs = append(l.GPUs, s)
			}
		}
		before := r
		r = Decide(r, l)
		tell(before, r)
	}
	return out.String()
}

func TestDecisionsOverRecordedSeries(t *testing.T) { goldens(t, "testdata/*.series", play) }

// goldens has each file beside what comes of it.
func goldens(t *testing.T, pattern string, play func(*testing.T, string) string) {
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.Greater(t, len(files), 10)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			hosttest.Golden(t, file+".golden", play(t, string(text)))
		})
	}
}

// One look reports; each gate alone is enough.
func TestEachGateQuarantinesAtOnce(t *testing.T) {
	for letter, word := range map[byte]string{'h': "hang", 'n': "hang", 'd': "unreadable", '1': "uncorrectable errors", 'b': "bad pages", 'x': "gone", 'k': "not in kfd", 'o': "no compute", 's': "node fails"} {
		well, _ := sign(0, '.')
		other, _ := sign(1, '.')
		r := Decide(Record{}, Look{At: start, Policy: Auto, GPUs: []Reading{well, other}})
		l := Look{At: start.Add(15 * time.Second), Policy: Auto, GPUs: []Reading{other}}
		if s, here := sign(0, letter); here {
			l.GPUs = []Reading{s, other}
		}
		r = Decide(r, l)
		g := r.Find(names[0])
		require.Equal(t, Quarantined, g.State, string(letter))
		require.Equal(t, ByHealth, g.QuarantinedBy)
		require.Equal(t, word, g.ShortReason())
		require.Equal(t, InService, r.Find(names[1]).State)
		require.Len(t, r.NotInService(), 1)
	}
}

// A running task has the nodes open, and is neither warned of lost results nor ended.
func TestGPUWithoutComputeEndangersNoRunningTask(t *testing.T) {
	for letter, reason := range map[byte]string{'o': "no program can compute on it: no /dev/kfd",
		'k': "the kernel's KFD no longer lists it"} {
		well, _ := sign(0, '.')
		without, _ := sign(0, letter)
		without.GFX = ""
		other, _ := sign(1, '.')
		task := []Task{{Container: "a-task", GPUs: []string{names[0]}}}
		r := Decide(Record{}, Look{At: start, Policy: Auto, GPUs: []Reading{well, other}, Tasks: task})
		r = Decide(r, Look{At: start.Add(15 * time.Second), Policy: Auto, GPUs: []Reading{without, other}, Tasks: task})
		g := r.Find(names[0])
		require.Equal(t, reason, g.Reason)
		require.Len(t, g.ActiveFaults, 1, "KFD's list is not a second fault")
		require.Zero(t, g.Code())
		fault, gate := g.TaskFault()
		require.NotNil(t, fault)
		require.False(t, gate, reason)
		require.Empty(t, r.Runs[0].GPUs[0].NewFaults, reason)
	}
}

// A GPU that is divided again has other partitions, and none is missing for that.
func TestRemovedPartitionsAreNotAFault(t *testing.T) {
	part := func(name string) Reading {
		return Reading{Slot: gpu.Slot{PCI: name, GFX: "gfx942"}, Up: true, State: health.Healthy}
	}
	r := Decide(Record{}, Look{At: start, Policy: Auto, GPUs: []Reading{part("0000:03:00.0"), part("0000:03:00.0-1"), part("0000:43:00.0")}})
	require.Len(t, r.GPUs, 3)
	r = Decide(r, Look{At: start.Add(15 * time.Second), Policy: Auto, GPUs: []Reading{part("0000:03:00.0"), part("0000:43:00.0")}})
	require.Len(t, r.GPUs, 2)
	require.Empty(t, r.NotInService())
}

// Whether it falls sick in service or on probation, alone or with all others; a person's
// word is not a fault, and no return takes the count back.
func TestQuarantinesAreCounted(t *testing.T) {
	at, r := start, Record{}
	look := func(letters string) uint64 {
		l := Look{At: at, Policy: Auto}
		for i := range letters {
			s, _ := sign(i, letters[i])
			l.GPUs = append(l.GPUs, s)
		}
		r, at = Decide(r, l), at.Add(15*time.Second)
		return r.Find(names[0]).Times
	}
	require.Zero(t, look(".."))
	require.EqualValues(t, 1, look("h."))
	require.EqualValues(t, 1, look("H."), "it is quarantined already")
	require.EqualValues(t, 1, look(".."), "on probation")
	require.EqualValues(t, 2, look("h."), "and sick again")
	var err error
	r, _, err = r.Return(names[0], at)
	require.NoError(t, err)
	require.EqualValues(t, 2, look(".."))
	r, err = r.Quarantine(names[0], "swap the riser", at)
	require.NoError(t, err)
	require.EqualValues(t, 2, look(".."), "by hand")
	r, _, err = r.Return(names[0], at)
	require.NoError(t, err)
	look("..")
	require.EqualValues(t, 3, look("hh"), "with all others")
	require.Empty(t, r.Find(names[0]).Strikes)
}

func TestTimeNotInServiceIsSummedUp(t *testing.T) {
	seen := func(letter byte) []Reading { a, _ := sign(0, letter); b, _ := sign(1, '.'); return []Reading{a, b} }
	r := Decide(Record{}, Look{At: start, Policy: Auto, GPUs: seen('h')})
	at := start
	for range 30 {
		at = at.Add(15 * time.Second)
		r = Decide(r, Look{At: at, Policy: Auto, GPUs: seen('.')})
	}
	g := r.Find(names[0])
	require.Equal(t, InService, g.State)
	require.InDelta(t, (15*time.Second + probationTime).Seconds(), g.QuarantinedFor(at), 0.1, "a look, and the probation")
	r, err := r.Quarantine(names[0], "to be moved", at)
	require.NoError(t, err)
	require.InDelta(t, 315+60, r.Find(names[0]).QuarantinedFor(at.Add(time.Minute)), 0.1)
}

func TestInvalidManualChangesAreRefused(t *testing.T) {
	a, _ := sign(0, '.')
	r := Decide(Record{}, Look{At: start, Policy: Auto, GPUs: []Reading{a}})
	for want, do := range map[string]func() error{
		"cannot quarantine GPU 0000:99:00.0: it is not known":                              func() error { _, err := r.Quarantine("0000:99:00.0", "x", start); return err },
		"cannot quarantine a GPU without a reason: builds that are refused show it":        func() error { _, err := r.Quarantine(names[0], " ", start); return err },
		"cannot quarantine a GPU for that reason: want one line of at most 200 characters": func() error { _, err := r.Quarantine(names[0], "a\nb", start); return err },
		"cannot return GPU 0: it has been in service since 2026-08-01 14:00:00 UTC":        func() error { _, _, err := r.Return(names[0], start); return err },
		"cannot return GPU 0000:99:00.0: it is not known":                                  func() error { _, _, err := r.Return("0000:99:00.0", start); return err },
		"cannot quarantine a GPU: gpu-quarantine=off; set it to manual or auto first":      func() error { o := r; o.Policy = Off; _, err := o.Quarantine(names[0], "x", start); return err },
		"cannot quarantine GPU 0: it has been quarantined since 2026-08-01 14:00:00 UTC by hand: x; return it first to give another reason": func() error {
			o, err := r.Quarantine(names[0], "x", start)
			require.NoError(t, err)
			_, err = o.Quarantine(names[0], "y", start)
			return err
		},
	} {
		require.EqualError(t, do(), want)
	}
}

func TestQuarantineRecordRoundTrip(t *testing.T) {
	r := hosttest.Host(t, "amd")
	none, err := RecordFile.Read(r)
	require.NoError(t, err)
	require.Empty(t, none.GPUs)
	a, _ := sign(0, 'n')
	rec := Decide(Record{}, Look{At: start, Policy: Auto, Boot: "b", Driver: "7", GPUs: []Reading{a}})
	require.NoError(t, RecordFile.Write(r, rec))
	got, err := RecordFile.Read(r)
	require.NoError(t, err)
	require.Equal(t, rec, got)
	st, err := r.Stat(File)
	require.NoError(t, err)
	require.EqualValues(t, 0o644, st.Mode().Perm(), "the exporter is not root")
	for _, text := range []string{"", "{", `{"gpus":[{"name":""}]}`, `{"gpus":[{"name":"a","state":"quarantined"}]}`, `{"gpus":[{"name":"a","state":"in_service"},{"name":"a","state":"in_service"}]}`} {
		hosttest.Put(t, r, File, text)
		_, err := RecordFile.Read(r)
		require.ErrorIs(t, err, statefile.ErrDamaged, text)
	}
}

func FuzzRecord(f *testing.F) {
	a, _ := sign(0, 'n')
	data, err := json.Marshal(Decide(Record{}, Look{At: start, Policy: Auto, GPUs: []Reading{a}}))
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(`{"gpus":[{"name":"a","state":"on_probation","quarantined_by":"health","quarantined_since":"2026-08-01T14:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := RecordFile.Decode(data)
		if err != nil {
			return
		}
		for letter := range []byte(".h?") { // whatever lies there, deciding on goes on
			s, _ := sign(0, ".hc"[letter])
			rec = Decide(rec, Look{At: start, Policy: Auto, GPUs: []Reading{s}})
		}
		for _, g := range rec.NotInService() {
			_ = g.Text()
		}
	})
}

// explain-error has entries for faults of the GPU's own readings.
func TestCodeIsOfTheFaultThatQuarantinesTheGPU(t *testing.T) {
	hang, gone := &health.Fault{Kind: health.Hang}, &health.Fault{Kind: missing}
	for name, c := range map[string]struct {
		g    GPU
		want int
	}{
		"a reading":    {GPU{State: Quarantined, QuarantinedBy: ByHealth, Fault: hang}, 2},
		"on probation": {GPU{State: OnProbation, QuarantinedBy: ByHealth, Fault: hang}, 2},
		"in service":   {GPU{State: InService, QuarantinedBy: ByHealth, Fault: hang}, 0},
		"by hand":      {GPU{State: Quarantined, QuarantinedBy: ByHand, Fault: hang}, 0},
		"no fault":     {GPU{State: Quarantined, QuarantinedBy: ByHealth}, 0},
		"missing":      {GPU{State: Quarantined, QuarantinedBy: ByHealth, Fault: gone}, 0},
	} {
		require.Equal(t, c.want, c.g.Code(), name)
	}
}
