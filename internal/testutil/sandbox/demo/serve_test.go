package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyATerminalWithoutVariablesWaits(t *testing.T) {
	none := func(string) string { return "" }
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	require.Equal(t, "the output is not a terminal", noWait(&bytes.Buffer{}, none))
	require.Equal(t, "the output is not a terminal", noWait(file, none))
	require.Equal(t, "the output is not a terminal", noWait(null, none))
	for variable, value := range map[string]string{"CI": "false", "NO_SERVE": "1"} {
		require.Equal(t, variable+" is set", noWait(file, func(name string) string {
			if name == variable {
				return value
			}
			return ""
		}))
	}
}

func TestMissingRuncHasACommandThatGetsIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gets runc")
	}
	programs := t.TempDir()
	t.Setenv("PATH", programs)
	d := &demo{}
	require.Contains(t, d.missingRunc(), "your distribution's package runc")
	require.NoError(t, os.WriteFile(filepath.Join(programs, "runc"), nil, 0o755))
	require.Empty(t, d.missingRunc())
}
