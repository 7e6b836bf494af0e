package cli

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGPUBaselineIsTheCharmsProgram(t *testing.T) {
	var started []string
	becomeProgram = func(file string, argv, env []string) error {
		started = append([]string{file}, argv[1:]...)
		return syscall.ENOENT
	}
	t.Cleanup(func() { becomeProgram = syscall.Exec })
	code, _, stderr := dispatch(t, "no-gpu", "gpu-baseline compare a b --help")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "gpu-baseline: no such file or directory")
	require.Regexp(t, "/bin/gpu-baseline$", started[0])
	require.Equal(t, []string{"compare", "a", "b", "--help"}, started[1:])
}
