//go:build !windows

package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// serviceOf returns the process of the service on a machine with an SDK.
func serviceOf(t *testing.T, m *fakeMachine) *serving {
	sdk := filepath.Join(m.dir, "rocm")
	require.NoError(t, os.MkdirAll(filepath.Join(sdk, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(sdk, "bin/hipInfo.exe"), nil, 0o600))
	m.facts.HIP = []Tool{{Path: sdk}}
	p, err := pathsOf(m)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(p.logs(), 0o755))
	s := &serving{m: m, p: p, settings: validSettings(), log: &logFile{path: p.log(), max: maxLog}, hipInfo: hipInfoOf(m.facts)}
	s.settings.WorkDir = filepath.Join(m.dir, "work")
	t.Cleanup(func() { s.log.Close() })
	return s
}

func (m *fakeMachine) LogEvent(text string) error {
	m.events = append(m.events, text)
	return nil
}

func (m *fakeMachine) tags() string {
	for _, v := range m.started[len(m.started)-1].Env {
		if list, ok := strings.CutPrefix(v, "CONCOURSE_TAG="); ok {
			return list
		}
	}
	return ""
}

func TestWorkerThatLostItsCardIsNoWorkerOfTheProcessorsGPU(t *testing.T) {
	card, other := GPU{Device: 0x7550, Name: "AMD Radeon RX 9070 XT"}, GPU{Device: 0x744c, Name: "AMD Radeon RX 7900 XTX"}
	integrated, unknown := GPU{Device: 0x164e, Name: "AMD Radeon(TM) Graphics"}, GPU{Device: 0xffff, Name: "AMD GPU"}
	const one = "windows,gpu,compute-runtime=rocm,rocm,gpu-count=1,gfx="
	type start struct {
		present []GPU
		tags    string
		lost    string
	}
	for name, starts := range map[string][]start{
		"lost and back": {{[]GPU{card, integrated}, one + "gfx1201", ""},
			{[]GPU{integrated}, "windows,gpu-count=0", "AMD Radeon RX 9070 XT (1002:7550)"},
			{[]GPU{integrated}, "windows,gpu-count=0", "AMD Radeon RX 9070 XT (1002:7550)"},
			{[]GPU{card, integrated}, one + "gfx1201", ""}},
		"one of two lost": {{[]GPU{card, other, integrated}, "windows,gpu,compute-runtime=rocm,rocm,gpu-count=2,gfx=gfx1201,gfx=gfx1100", ""},
			{[]GPU{other, integrated}, one + "gfx1100", "AMD Radeon RX 9070 XT (1002:7550)"}},
		"one of two equal ones lost": {{[]GPU{card, card}, "windows,gpu,compute-runtime=rocm,rocm,gpu-count=2,gfx=gfx1201", ""},
			{[]GPU{card}, one + "gfx1201", "AMD Radeon RX 9070 XT (1002:7550)"}},
		"lost beside an unknown one": {{[]GPU{card, unknown}, one + "gfx1201", ""},
			{[]GPU{unknown}, "windows,gpu-count=0", "AMD Radeon RX 9070 XT (1002:7550)"}},
		"a card is added":  {{[]GPU{integrated}, one + "gfx1036", ""}, {[]GPU{integrated, card}, one + "gfx1201", ""}},
		"an empty machine": {{nil, "windows,gpu-count=0", ""}, {nil, "windows,gpu-count=0", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			s := serviceOf(t, m)
			for _, step := range starts {
				m.gpus = step.present
				_, err := s.start()
				require.NoError(t, err)
				require.Equal(t, step.tags, m.tags())
				s.report(9, "")
				require.Equal(t, step.lost != "", strings.HasPrefix(s.state.GPUProblem, "Windows no longer shows "+step.lost) &&
					step.lost != "")
			}
			if starts[1].lost == "" {
				require.Empty(t, m.events)
				return
			}
			require.Len(t, m.events, 1, "an event for each new problem")
			require.Contains(t, m.events[0], "run: concourse-worker-windows install")
		})
	}
}

func TestMissingCardIsNamedByCheckAndForgottenByInstall(t *testing.T) {
	m := newMachine(t)
	exit, _, errs := m.install()
	require.Zero(t, exit, errs)
	s := serviceOf(t, m)
	m.gpus = []GPU{{Device: 0x7550, Name: "AMD Radeon RX 9070 XT"}, {Device: 0x164e}}
	_, err := s.start()
	require.NoError(t, err)
	m.gpus = m.gpus[1:]
	_, out, errs := m.run("check", "--offline")
	require.Contains(t, out, "Windows no longer shows AMD Radeon RX 9070 XT (1002:7550)", errs)
	exit, _, errs = m.install()
	require.Zero(t, exit, errs)
	_, out, errs = m.run("check", "--offline")
	require.NotContains(t, out, "no longer shows", errs)
}

// Each task would hang as hipInfo does.
func TestHIPThatHangsGetsNoTask(t *testing.T) {
	m := newMachine(t)
	s := serviceOf(t, m)
	m.gpus = []GPU{{Device: 0x7550}}
	_, err := s.start()
	require.NoError(t, err)
	changed := make(chan string, 1)
	s.watch(changed)
	require.Empty(t, changed)

	m.output = errNoEnd
	s.watch(changed)
	require.Equal(t, s.hipInfo+" does not end, as a task would not", <-changed)
	_, err = s.start()
	require.NoError(t, err)
	require.Equal(t, "windows,gpu-count=0", m.tags())
	require.Len(t, m.events, 1)

	m.output = nil
	s.watch(changed)
	require.Empty(t, changed, "no further process is left to hang")
	_, err = s.start()
	require.NoError(t, err)
	require.Contains(t, m.tags(), "gfx=gfx1201")
}

func FuzzParseKnown(f *testing.F) {
	f.Add([]byte(`[{"device":30032,"name":"AMD Radeon RX 9070 XT"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, g := range parseKnown(data) {
			require.LessOrEqual(t, len([]rune(g.Name)), 110)
			require.NotContains(t, g.Name, "\n")
		}
	})
}
