package quarantine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tell goes through a tale, a line a look each 15 s, and reports what came of the tasks:
//
//	4* h.. A:0 B:12 A=134
//
// is four looks: a letter for each GPU; who has which GPUs; how the ended tasks did.
// A task is like another with the same first letter. M0=12 are GiB in use of GPU 0's 64,
// which are 1 otherwise; a last word return is a person, who returns GPU 0 before.
func tell(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	r, at := Record{}, start
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		n := 1
		if count, many := strings.CutSuffix(words[0], "*"); many {
			_, err := fmt.Sscan(count, &n)
			require.NoError(t, err, line)
			words = words[1:]
		}
		l := Look{Policy: Auto, Boot: "b", Driver: "1", Exits: map[string]Exit{}}
		if words[0] == "?" {
			l.Unknown, words[0] = "the exporter does not answer", ""
		}
		for i := range len(words[0]) {
			if s, here := sign(i, words[0][i]); here {
				used, total := float64(1<<30), float64(64<<30)
				s.Memory, s.Total = &used, &total
				l.GPUs = append(l.GPUs, s)
			}
		}
		for _, w := range words[1:] {
			if w == "return" {
				var err error
				r, _, err = r.Return(names[0], at)
				require.NoError(t, err)
				continue
			}
			if who, status, is := strings.Cut(w, "="); is {
				var n int
				if who[0] == 'M' {
					_, err := fmt.Sscan(status, &n)
					require.NoError(t, err, line)
					*l.GPUs[who[1]-'0'].Memory = float64(n << 30)
					continue
				}
				_, err := fmt.Sscan(status, &n)
				require.NoError(t, err, line)
				l.Exits[who] = Exit{Status: &n}
				continue
			}
			who, gpus, ok := strings.Cut(w, ":")
			require.True(t, ok, line)
			task := Task{Container: who, StepHash: who[:1]}
			for _, g := range gpus {
				task.GPUs = append(task.GPUs, names[g-'0'])
			}
			l.Tasks = append(l.Tasks, task)
		}
		for range n {
			before := r
			l.At = at
			r = Decide(r, l)
			for _, g := range r.GPUs {
				if was := before.Find(g.Name); was != nil && was.State != g.State {
					fmt.Fprintf(&out, "%6s  GPU %d  %s: %s\n", at.Sub(start), g.Index, g.State, g.Reason)
				}
			}
			for _, g := range r.GPUs {
				if was := before.Find(g.Name); was != nil && was.WarningText() != g.WarningText() {
					fmt.Fprintf(&out, "%6s  GPU %d  warning: %s\n", at.Sub(start), g.Index, g.WarningText())
				}
			}
			for _, run := range r.FaultyRuns[min(len(before.FaultyRuns), len(r.FaultyRuns)):] {
				exit := ""
				if run.Exit != nil {
					exit = fmt.Sprintf(", exit %d", *run.Exit)
				}
				for _, u := range run.faulty() {
					fmt.Fprintf(&out, "%6s  %s  on GPU %d%s: %s\n", at.Sub(start), run.Container, u.Index, exit, DescribeFaults(u.NewFaults))
				}
				fmt.Fprintf(&out, "%6s  %s  %s: %s\n", at.Sub(start), run.Container, run.Verdict, run.Reason)
			}
			if a := fmt.Sprint(r.Avoid()); a != fmt.Sprint(before.Avoid()) {
				fmt.Fprintf(&out, "%6s  avoid %s\n", at.Sub(start), a)
			}
			at = at.Add(15 * time.Second)
		}
	}
	return out.String()
}

func TestRunsOverRecordedTales(t *testing.T) { goldens(t, "testdata/*.tale", tell) }

func TestBinomialTail(t *testing.T) {
	for _, c := range []struct {
		n, k int
		want float64
	}{{0, 0, 1}, {3, 0, 1}, {3, 3, 0.001}, {3, 2, 0.028}, {3, 4, 0}, {2, 1, 0.19}} {
		require.InDelta(t, c.want, binomialTail(c.n, c.k, 0.1), 1e-12, "%+v", c)
	}
}

// A decision leaves what it was made from as it was.
func TestDecideDoesNotChangeThePreviousRecord(t *testing.T) {
	a, _ := sign(0, '.')
	b, _ := sign(1, 'r')
	l := Look{At: start, Policy: Auto, GPUs: []Reading{a, b}, Tasks: []Task{{Container: "A1", StepHash: "A", GPUs: names[:2]}}}
	r := Decide(Record{}, l)
	for i := range 12 {
		l.At = l.At.Add(15 * time.Second)
		sick, _ := sign(i%2, "rR.h"[i%4])
		l.GPUs = slices.Clone(l.GPUs)
		l.GPUs[i%2] = sick
		if l.Tasks = nil; i%3 == 0 {
			l.Tasks = []Task{{Container: fmt.Sprint("A", i), StepHash: "A", GPUs: names[i%2 : i%2+1]}}
		}
		same := fmt.Sprintf("%+v", r)
		was, err := RecordFile.Encode(r)
		require.NoError(t, err)
		next := Decide(r, l)
		now, err := RecordFile.Encode(r)
		require.NoError(t, err)
		require.Equal(t, string(was), string(now))
		require.Equal(t, same, fmt.Sprintf("%+v", r))
		r = next
	}
}
