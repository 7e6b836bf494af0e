//go:build e2e

package fuzz

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FUZZTIME may be set to another time.
func fuzzTime(usual string) string {
	if t := os.Getenv("FUZZTIME"); t != "" {
		return t
	}
	return usual
}

func TestFuzzersOfTheWrapperFindNothing(t *testing.T) {
	fuzz(t, "60s", [][2]string{
		{"FuzzParseArgs", "concourse-ci-machine/internal/oci"},
		{"FuzzEdit", "concourse-ci-machine/internal/oci"},
		{"FuzzDecodeCDI", "concourse-ci-machine/internal/oci"},
		{"FuzzVisible", "concourse-ci-machine/internal/oci"},
		{"FuzzParse", "concourse-ci-machine/internal/oci/rawjson"},
	})
}

// What is the unit's own, and what a task says of GPUs where they are leased.
func TestFuzzersOfLeasesFindNothing(t *testing.T) {
	fuzz(t, "5s", [][2]string{
		{"FuzzConfig", "concourse-ci-machine/internal/oci"},
		{"FuzzMarker", "concourse-ci-machine/internal/oci"},
		{"FuzzWant", "concourse-ci-machine/internal/oci"},
		{"FuzzDecodeRecord", "concourse-ci-machine/internal/lease"},
		{"FuzzDecodeWaiter", "concourse-ci-machine/internal/lease"},
	})
}

// Other applications, and people, are trusted more than images and tasks.
func TestFuzzersOfRelationsAndOptionsFindNothing(t *testing.T) {
	fuzz(t, "5s", [][2]string{
		{"FuzzParseWorker", "concourse-ci-machine/internal/relation"},
		{"FuzzParseWorkerGPUs", "concourse-ci-machine/internal/relation"},
		{"FuzzParseDatabase", "concourse-ci-machine/internal/relation"},
		{"FuzzParseVault", "concourse-ci-machine/internal/relation"},
		{"FuzzParseCertificates", "concourse-ci-machine/internal/relation"},
		{"FuzzParse", "concourse-ci-machine/internal/config"},
		{"FuzzWebFlags", "concourse-ci-machine/internal/config"},
		{"FuzzHIPArches", "concourse-ci-machine/internal/config"},
	})
}

// Leases against their model, with other steps each time and more than twice as many
// as in the package's own test. What fails names its seed.
func TestMoreStepsOfLeasesAgreeWithTheirModel(t *testing.T) {
	t.Parallel()
	seed := strconv.FormatInt(time.Now().UnixNano(), 10)
	out, err := exec.Command("go", "test", "-count=1", "-v", "-run", "^TestNoGPUIsHeldTwiceAndNoneIsLost$", "concourse-ci-machine/internal/lease",
		"-lease.steps", "25000", "-lease.seed", seed).CombinedOutput()
	require.NoError(t, err, "seed %s: %s", seed, out)
	require.Contains(t, string(out), "\nPASS\n")
	t.Logf("seed %s", seed)
}

// Each fuzzer has one worker, so that two run at a time on two cores. Little is
// spent on making inputs short: with certificates in them that takes all the time.
func fuzz(t *testing.T, usual string, targets [][2]string) {
	for _, target := range targets {
		t.Run(target[0], func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+target[0]+"$", "-fuzztime", fuzzTime(usual), "-fuzzminimizetime", "10x", "-parallel", "1", target[1]).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "\nPASS\n")
			t.Logf("%s", out[max(0, len(out)-300):])
		})
	}
}
