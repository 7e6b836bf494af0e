package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTaskEnvIsSplitIntoWords(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"":                                   nil,
		"A=1":                                {"A": "1"},
		"A=1 B=2\n_C=":                       {"A": "1", "B": "2", "_C": ""},
		`A="two words" B=x"y z"`:             {"A": "two words", "B": "xy z"},
		"HIP_VISIBLE_DEVICES=0,1 X=a=b":      {"HIP_VISIBLE_DEVICES": "0,1", "X": "a=b"},
		`NCCL_DEBUG=INFO "PATHS=/a:/b c:/d"`: {"NCCL_DEBUG": "INFO", "PATHS": "/a:/b c:/d"},
	} {
		got, err := environment(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestAutomaticOverrideIsNotAVariableOfTasks(t *testing.T) {
	for value, auto := range map[string]bool{"auto": true, "11.0.0": false, "": false} {
		c, problems := Parse(map[string]any{"task-env": "A=1 HSA_OVERRIDE_GFX_VERSION=" + value}, nil)
		require.Empty(t, problems)
		require.Equal(t, auto, c.GPU.HSAOverrideAuto)
		_, set := c.GPU.TaskEnv["HSA_OVERRIDE_GFX_VERSION"]
		require.Equal(t, !auto, set)
	}
}

// D27, D28: a wrong value is named by its place or key, never repeated.
func TestProblemOfTaskEnvDoesNotQuoteTheValue(t *testing.T) {
	for text, want := range map[string]string{
		"A=1 hunter2":        "word 2 is not KEY=value",
		"1A=x":               "word 1 is not KEY=value",
		"A-B=x":              "word 1 is not KEY=value",
		`A="hunter2`:         "a quote is not closed",
		"A=hunter2 A=second": "A is given twice",
	} {
		_, problems := Parse(map[string]any{"mode": "worker", "task-env": text}, nil)
		require.Len(t, problems, 1, text)
		require.Equal(t, "task-env: "+want, problems[0].String())
		require.NotContains(t, problems[0].String(), "hunter2")
	}
}

func TestFoldersAreAllNoneOrNames(t *testing.T) {
	for text, want := range map[string]Worker{
		"all":       {},
		"none":      {NoSrvFolders: true},
		"":          {NoSrvFolders: true},
		"a,data_rw": {SrvFolders: []string{"a", "data_rw"}},
	} {
		c, problems := Parse(map[string]any{"mode": "worker", "srv-folders": text}, nil)
		require.Empty(t, problems, text)
		require.Equal(t, want.SrvFolders, c.Worker.SrvFolders, text)
		require.Equal(t, want.NoSrvFolders, c.Worker.NoSrvFolders, text)
	}
	for _, text := range []string{"../etc", "a,,b", ".hidden", "a/b"} {
		_, problems := Parse(map[string]any{"mode": "worker", "srv-folders": text}, nil)
		require.Len(t, problems, 1, text)
	}
}

func FuzzEnvironment(f *testing.F) {
	f.Add(`A="b c" D=e`)
	f.Fuzz(func(t *testing.T, text string) {
		env, err := environment(text)
		if err == nil {
			for k := range env {
				require.Regexp(t, envName(), k)
			}
		}
	})
}
