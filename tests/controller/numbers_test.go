//go:build controller

package controller

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readNumber and writeNumber are for files of /proc/sys.
func readNumber(t *testing.T, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	require.NoError(t, err)
	return n
}

func writeNumber(t *testing.T, file string, n int) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(strconv.Itoa(n)), 0o644))
}
