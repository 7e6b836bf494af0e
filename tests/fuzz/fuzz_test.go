//go:build e2e

package fuzz

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// FUZZTIME may be set to another time than a minute.
func fuzzTime() string {
	if t := os.Getenv("FUZZTIME"); t != "" {
		return t
	}
	return "60s"
}

// Each fuzzer has one worker, so that two run at a time on two cores.
func TestFuzzersOfTheWrapperFindNothing(t *testing.T) {
	for _, target := range [][2]string{
		{"FuzzParseArgs", "concourse-ci-machine/internal/oci"},
		{"FuzzEdit", "concourse-ci-machine/internal/oci"},
		{"FuzzDecodeCDI", "concourse-ci-machine/internal/oci"},
		{"FuzzVisible", "concourse-ci-machine/internal/oci"},
		{"FuzzParse", "concourse-ci-machine/internal/oci/rawjson"},
	} {
		t.Run(target[0], func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+target[0]+"$", "-fuzztime", fuzzTime(), "-parallel", "1", target[1]).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "\nPASS\n")
			t.Logf("%s", out[max(0, len(out)-300):])
		})
	}
}
