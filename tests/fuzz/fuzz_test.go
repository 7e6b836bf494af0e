//go:build e2e

package fuzz

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// FUZZTIME may be set to another time.
func fuzzTime(usual string) string {
	if t := os.Getenv("FUZZTIME"); t != "" {
		return t
	}
	return usual
}

func TestFuzzersOfTheWrapperFindNothing(t *testing.T) {
	fuzz(t, "5s", [][2]string{
		{"FuzzParseArgs", "github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline"},
		{"FuzzEdit", "github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"},
		{"FuzzDecodeCDI", "github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"},
		{"FuzzVisible", "github.com/fourdollars/concourse-ci-machine/internal/oci/visible"},
		{"FuzzParse", "github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"},
	})
}

// What is the unit's own, and what a task requests of leased GPUs.
func TestFuzzersOfLeasesFindNothing(t *testing.T) {
	fuzz(t, "2s", [][2]string{
		{"FuzzConfig", "github.com/fourdollars/concourse-ci-machine/internal/oci"},
		{"FuzzMarker", "github.com/fourdollars/concourse-ci-machine/internal/oci"},
		{"FuzzProgramTexts", "github.com/fourdollars/concourse-ci-machine/internal/oci"},
		{"FuzzWant", "github.com/fourdollars/concourse-ci-machine/internal/oci/visible"},
		{"FuzzDecodeRecord", "github.com/fourdollars/concourse-ci-machine/internal/pool/lease"},
		{"FuzzNotes", "github.com/fourdollars/concourse-ci-machine/internal/kube/deviceplugin"},
		{"FuzzKubeconfig", "github.com/fourdollars/concourse-ci-machine/internal/kube/deviceplugin"},
		{"FuzzMeasurement", "github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"},
		{"FuzzResult", "github.com/fourdollars/concourse-ci-machine/internal/charm/healthcheck"},
		{"FuzzTeamOf", "github.com/fourdollars/concourse-ci-machine/internal/charm/watcher"},
		{"FuzzOptionValue", "github.com/fourdollars/concourse-ci-machine/internal/charm/onemachine"},
		{"FuzzFacts", "github.com/fourdollars/concourse-ci-machine/internal/charm/command/remote"},
		{"FuzzWorkerLine", "github.com/fourdollars/concourse-ci-machine/internal/charm/onemachine"},
		{"FuzzParseReport", "github.com/fourdollars/concourse-ci-machine/internal/charm/command/actions"},
		{"FuzzDecode", "github.com/fourdollars/concourse-ci-machine/internal/base/statefile"},
		{"FuzzPrintable", "github.com/fourdollars/concourse-ci-machine/internal/charm/healthcheck"},
		{"FuzzParse", "github.com/fourdollars/concourse-ci-machine/src/gpu-baseline/baseline"},
		{"FuzzVersions", "github.com/fourdollars/concourse-ci-machine/src/gpu-baseline/baseline"},
		{"FuzzRecord", "github.com/fourdollars/concourse-ci-machine/src/gpu-baseline/baseline"},
	})
}

// Other applications, and people, are trusted more than images and tasks.
func TestFuzzersOfRelationsAndOptionsFindNothing(t *testing.T) {
	fuzz(t, "2s", [][2]string{
		{"FuzzParseWorker", "github.com/fourdollars/concourse-ci-machine/internal/charm/relation"},
		{"FuzzParseWorkerGPUs", "github.com/fourdollars/concourse-ci-machine/internal/charm/relation"},
		{"FuzzPublishedGPUs", "github.com/fourdollars/concourse-ci-machine/internal/charm/relation"},
		{"FuzzParseDatabase", "github.com/fourdollars/concourse-ci-machine/internal/charm/relation"},
		{"FuzzParseVault", "github.com/fourdollars/concourse-ci-machine/internal/charm/relation"},
		{"FuzzParseLDAP", "github.com/fourdollars/concourse-ci-machine/internal/charm/relation"},
		{"FuzzParseTracing", "github.com/fourdollars/concourse-ci-machine/internal/charm/relation"},
		{"FuzzParseRoute", "github.com/fourdollars/concourse-ci-machine/internal/charm/relation"},
		{"FuzzParseCertificates", "github.com/fourdollars/concourse-ci-machine/internal/charm/relation"},
		{"FuzzParseAuthorities", "github.com/fourdollars/concourse-ci-machine/internal/charm/relation"},
		{"FuzzParse", "github.com/fourdollars/concourse-ci-machine/internal/charm/config"},
		{"FuzzWebFlags", "github.com/fourdollars/concourse-ci-machine/internal/charm/config"},
		{"FuzzHIPArches", "github.com/fourdollars/concourse-ci-machine/internal/charm/config"},
	})
}

// Files of engines and other tools, which a person has dispatch read.
func TestFuzzersOfEnginesFindNothing(t *testing.T) {
	fuzz(t, "2s", [][2]string{
		{"FuzzDecode", "github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"},
		{"FuzzDaemonJSON", "github.com/fourdollars/concourse-ci-machine/internal/oci/engines"},
		{"FuzzConfigTOML", "github.com/fourdollars/concourse-ci-machine/internal/oci/engines"},
	})
}

// Builds and their output, and verdicts of workers, which a web reads.
func TestFuzzersOfBuildsFindNothing(t *testing.T) {
	fuzz(t, "2s", [][2]string{
		{"FuzzEvents", "github.com/fourdollars/concourse-ci-machine/internal/concourse/builds"},
		{"FuzzErrors", "github.com/fourdollars/concourse-ci-machine/internal/concourse/builds"},
		{"FuzzJUnit", "github.com/fourdollars/concourse-ci-machine/internal/concourse/testreport"},
		{"FuzzLine", "github.com/fourdollars/concourse-ci-machine/internal/concourse/testreport"},
		{"FuzzVerdicts", "github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/flakes"},
	})
}

// Lines and files of the kernel, in which tasks choose names, and records of tasks.
func TestFuzzersOfTaskRecordsFindNothing(t *testing.T) {
	fuzz(t, "2s", [][2]string{
		{"FuzzRead", "github.com/fourdollars/concourse-ci-machine/internal/gpu/signs"},
		{"FuzzDump", "github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"},
		{"FuzzKernelLine", "github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"},
		{"FuzzNameServers", "github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"},
		{"FuzzTexts", "github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"},
		{"FuzzDecode", "github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"},
		{"FuzzParts", "github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"},
	})
}

// Leases against their model, with other steps each time and five times as many
// as in the package's own test. What fails names its seed.
func TestMoreStepsOfLeasesAgreeWithTheirModel(t *testing.T) {
	t.Parallel()
	seed := strconv.FormatInt(time.Now().UnixNano(), 10)
	out, err := exec.Command("go", "test", "-count=1", "-v", "-run", "^TestNoGPUIsHeldTwiceOrLost$", "github.com/fourdollars/concourse-ci-machine/internal/pool/lease",
		"-lease.steps", "50000", "-lease.seed", seed).CombinedOutput()
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
			p, err := packageOf(target[1])
			require.NoError(t, err)
			run := func(limit string) (string, error) {
				c := exec.Command(p.program, "-test.run=^$", "-test.fuzz=^"+target[0]+"$", "-test.fuzztime="+limit, "-test.fuzzminimizetime=10x",
					"-test.parallel=1", "-test.fuzzcachedir="+p.cache)
				c.Dir = p.dir
				out, err := c.CombinedOutput()
				return string(out), err
			}
			out, err := run(fuzzTime(usual))
			if err != nil && outOfTime(out) {
				t.Logf("%s", out)
				out, err = run("20000x") // without a deadline: an input that hangs is met again
			}
			require.NoError(t, err, out)
			require.Contains(t, out, "\nPASS\n")
			t.Log(out[max(0, len(out)-300):])
		})
	}
}

// tested holds the program of a package's tests, its folder and that of its corpus.
type tested struct{ program, dir, cache string }

// programs holds how to build each package's tests, once for all its fuzzers.
var programs struct {
	sync.Mutex
	folder string
	built  map[string]func() (tested, error)
}

func TestMain(m *testing.M) {
	os.Exit(suite.InFolder(m, func(dir string) error {
		programs.folder, programs.built = dir, map[string]func() (tested, error){}
		return nil
	}))
}

// packageOf builds the tests of a package as `go test -fuzz` does.
func packageOf(path string) (tested, error) {
	programs.Lock()
	build := programs.built[path]
	if build == nil {
		program := filepath.Join(programs.folder, strconv.Itoa(len(programs.built)))
		build = sync.OnceValues(func() (tested, error) {
			if out, err := exec.Command("go", "test", "-c", "-vet=off", "-buildvcs=false", "-fuzz=.", "-o", program, path).CombinedOutput(); err != nil {
				return tested{}, fmt.Errorf("cannot build the tests of %s: %w\n%s", path, err, out)
			}
			out, err := exec.Command("sh", "-c", "go env GOCACHE && go list -f {{.Dir}} "+path).Output()
			at := strings.Fields(string(out))
			if err != nil || len(at) != 2 {
				return tested{}, fmt.Errorf("cannot find %s: %w\n%s", path, err, out)
			}
			return tested{program, at[1], filepath.Join(at[0], "fuzz", path)}, nil
		})
		programs.built[path] = build
	}
	programs.Unlock()
	return build()
}

var deadline = regexp.MustCompile(`(?m)^\s*--- FAIL: \w+ \([0-9.]+s\)\n\s+context deadline exceeded\n\s*FAIL$`)

// outOfTime reports the end of the time from a finding. Go's fuzzer sometimes takes its own
// deadline for a failure (internal/fuzz, CoordinateFuzzing: the time is over for the
// parent's context before it is for the child's); a finding comes with the input that
// fails.
func outOfTime(out string) bool {
	return deadline.MatchString(out) && !strings.Contains(out, "Failing input written")
}

func TestOnlyTheEndOfTheTimeIsNotAFinding(t *testing.T) {
	for out, want := range map[string]bool{
		"fuzz: elapsed: 5s, execs: 49424\n--- FAIL: FuzzX (5.15s)\n    context deadline exceeded\nFAIL\nexit status 1\n":                                     true,
		"--- FAIL: FuzzX (5.15s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: wrong\n    \n    Failing input written to testdata/fuzz/FuzzX/1\nFAIL\n": false,
		"--- FAIL: FuzzX (5.15s)\n    context deadline exceeded\n    Failing input written to testdata/fuzz/FuzzX/1\nFAIL\n":                                 false,
		"--- FAIL: FuzzX (5.15s)\n    fuzzing process hung or terminated unexpectedly: exit status 2\nFAIL\n":                                                false,
		"ok  \tconcourse-ci-machine/internal/oci\t60.1s\n":                                                                                                   false,
	} {
		require.Equal(t, want, outOfTime(out), out)
	}
}
