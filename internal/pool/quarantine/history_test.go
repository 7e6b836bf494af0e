package quarantine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// machine plays tasks one after the other on healthy GPUs, a look each 15 s.
type machine struct {
	t      *testing.T
	r      Record
	at     time.Time
	serial int
}

func (m *machine) look(gpus string, tasks []Task, exits map[string]Exit) {
	l := Look{At: m.at, Policy: Auto, Boot: "b", Driver: "1", Tasks: tasks, Exits: exits}
	for i := range gpus {
		s, _ := sign(i, gpus[i])
		l.GPUs = append(l.GPUs, s)
	}
	m.r, m.at = Decide(m.r, l), m.at.Add(15*time.Second)
}

// run plays one task of a GPU, from its start until it is judged.
func (m *machine) run(gpus string, gpu int, program, team string, exit int) {
	m.serial++
	task := Task{Container: fmt.Sprint("c", m.serial), StepHash: fmt.Sprint("step ", m.serial), Program: program,
		GPUs: []string{names[gpu]}}
	m.look(gpus, []Task{task}, nil)
	m.look(gpus, nil, map[string]Exit{task.Container: {Status: &exit, Team: team}})
	for range 2 {
		m.look(gpus, nil, nil)
	}
}

// Eight good runs elsewhere and four crashes of one task made a GPU look bad.
func TestOneTaskBlamesNoGPU(t *testing.T) {
	for _, status := range []int{134, 135, 136, 137, 139, 143} {
		t.Run(fmt.Sprint("exit ", status), func(t *testing.T) {
			m := &machine{t: t, at: start}
			for i := range 8 {
				m.run("...", 1+i%2, "good", "a", 0)
			}
			for range 4 {
				m.run("...", 0, "bad", "b", status) // each in a step with another name
			}
			g := m.r.Find(names[0])
			require.Equal(t, InService, g.State)
			require.Empty(t, g.Strikes)
			require.Empty(t, g.WarningText(), "a person is asked to look at a healthy GPU")
		})
	}
}

// Programs a to f run well on two GPUs, and then end otherwise on a third one.
func TestCrashesOfSeveralProgramsAndTeamsQuarantine(t *testing.T) {
	const sign, noSign = "e..", "..."
	teams := map[string]string{"a": "red", "b": "red", "c": "blue", "d": "blue"}
	oneTeam := map[string]string{"a": "red", "b": "red", "c": "red", "d": "red"}
	for name, c := range map[string]struct {
		gpus    string
		teams   map[string]string
		exit    int
		state   State
		strikes int
		text    string // of the warning or the reason
	}{
		"two teams, and a sign":    {sign, teams, 139, Quarantined, 1, "4 different tasks crash only on it, and 40 correctable errors"},
		"two teams, and no sign":   {noSign, teams, 139, Quarantined, 0, "4 different tasks crash only on it"},
		"one team, and a sign":     {sign, oneTeam, 139, InService, 0, "3 different tasks crash only on it, and 40 correctable errors; run a program on it with a result that you know"},
		"one team, and no sign":    {noSign, oneTeam, 139, InService, 0, ""},
		"unknown teams, no sign":   {noSign, nil, 139, InService, 0, ""},
		"aborted builds, a sign":   {sign, teams, 143, InService, 0, ""},
		"builds that time out":     {sign, teams, 137, InService, 0, ""},
		"tests that fail":          {sign, teams, 1, InService, 0, ""},
		"aborts of the C library":  {noSign, teams, 134, Quarantined, 0, "4 different tasks crash only on it"},
		"programs that always run": {sign, teams, 0, InService, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{t: t, at: start}
			for i := range 20 {
				for _, program := range []string{"a", "b", "c", "d"} {
					m.run(c.gpus, 1+i%2, program, c.teams[program], 0)
				}
			}
			text := ""
			for _, program := range []string{"a", "b", "c", "d"} {
				m.run(c.gpus, 0, program, c.teams[program], c.exit)
				if w := m.r.Find(names[0]).WarningText(); w != "" && text == "" {
					text = w
				}
			}
			g := m.r.Find(names[0])
			if g.State != InService {
				require.Equal(t, c.state, Quarantined)
				text = describe(*g.Fault)
			} else {
				require.Equal(t, c.state, InService)
			}
			require.Equal(t, c.text, text)
			require.Len(t, g.Strikes, c.strikes)
		})
	}
}

// A program that crashes everywhere, or now and then, is not evidence.
func TestProgramsThatCrashElsewhereBlameNoGPU(t *testing.T) {
	m := &machine{t: t, at: start}
	for i := range 40 {
		for k, program := range []string{"a", "b", "c", "d", "e"} {
			exit := 139
			if (i+k)%4 == 0 {
				exit = 0
			}
			m.run("eee", (i+i/3+k)%3, program, program, exit)
		}
	}
	for _, g := range m.r.GPUs {
		require.Equal(t, InService, g.State)
		require.Empty(t, g.WarningText())
		require.Len(t, g.Programs, 5)
	}
}

// The second suspicion within a week keeps the GPU for two hours. The evidence of the
// first is used up.
func TestSuspectedGPUReturnsWithoutAPerson(t *testing.T) {
	m := &machine{t: t, at: start}
	suspect := func() {
		for i := range 20 {
			for _, program := range []string{"a", "b", "c", "d"} {
				m.run("...", 1+i%2, program, program, 0)
			}
		}
		for _, program := range []string{"a", "b", "c", "d"} {
			m.run("...", 0, program, program, 139)
		}
	}
	out := func() (n time.Duration) {
		require.NotEqual(t, InService, m.r.Find(names[0]).State)
		for began := m.at; m.r.Find(names[0]).State != InService; n = m.at.Sub(began) {
			require.False(t, m.r.Find(names[0]).ManualReturn)
			m.look("...", nil, nil)
		}
		return n
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 16, 16, 16} {
		suspect()
		require.InDelta(t, (want * time.Hour).Minutes(), out().Minutes(), 10)
	}
	require.Empty(t, m.r.Find(names[0]).Strikes)
}
