package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const mixed = `{"Action":"start","Package":"github.com/fourdollars/concourse-ci-machine/a"}
{"Action":"output","Package":"github.com/fourdollars/concourse-ci-machine/a","Test":"TestT","Output":"=== RUN   TestT\n"}
{"Action":"pass","Package":"github.com/fourdollars/concourse-ci-machine/a","Test":"TestT/one","Elapsed":0}
{"Action":"output","Package":"github.com/fourdollars/concourse-ci-machine/a","Test":"TestT/two","Output":"=== RUN   TestT/two\n"}
{"Action":"output","Package":"github.com/fourdollars/concourse-ci-machine/a","Test":"TestT/two","Output":"    a_test.go:7: no GPU: none here\n"}
{"Action":"output","Package":"github.com/fourdollars/concourse-ci-machine/a","Test":"TestT/two","Output":"    --- SKIP: TestT/two (0.00s)\n"}
{"Action":"skip","Package":"github.com/fourdollars/concourse-ci-machine/a","Test":"TestT/two","Elapsed":0}
{"Action":"pass","Package":"github.com/fourdollars/concourse-ci-machine/a","Test":"TestT","Elapsed":0}
{"Action":"pass","Package":"github.com/fourdollars/concourse-ci-machine/a","Elapsed":1.5}
{"Action":"skip","Package":"github.com/fourdollars/concourse-ci-machine/empty","Elapsed":0}
`

const broken = `{"Action":"output","Package":"github.com/fourdollars/concourse-ci-machine/b","Test":"TestB","Output":"    b_test.go:1: it is wrong\n"}
{"Action":"fail","Package":"github.com/fourdollars/concourse-ci-machine/b","Test":"TestB","Elapsed":0}
{"Action":"fail","Package":"github.com/fourdollars/concourse-ci-machine/b","Elapsed":0.25}
`

const unbuilt = `{"ImportPath":"github.com/fourdollars/concourse-ci-machine/c [github.com/fourdollars/concourse-ci-machine/c.test]","Action":"build-output","Output":"c.go:1: undefined: x\n"}
{"ImportPath":"github.com/fourdollars/concourse-ci-machine/c [github.com/fourdollars/concourse-ci-machine/c.test]","Action":"build-fail"}
{"Action":"fail","Package":"github.com/fourdollars/concourse-ci-machine/c","Elapsed":0,"FailedBuild":"github.com/fourdollars/concourse-ci-machine/c [github.com/fourdollars/concourse-ci-machine/c.test]"}
`

// paniced is what is left of a package whose test program died.
const paniced = `{"Action":"output","Package":"github.com/fourdollars/concourse-ci-machine/d","Output":"panic: runtime error\n"}
{"Action":"fail","Package":"github.com/fourdollars/concourse-ci-machine/d","Elapsed":0.1}
`

func TestReport(t *testing.T) {
	tests := []struct {
		name   string
		events string
		code   int
		want   []string
	}{
		{"counts leaves and says why one is skipped", mixed, 0, []string{
			"a                                        1       0        1      1.50\n",
			"skipped: a TestT/two: no GPU: none here\n1 passed, 0 failed, 1 skipped\n",
		}},
		{"shows what a failed test said", mixed + broken, 1, []string{
			"FAILED: b\n    b_test.go:1: it is wrong\n", "1 passed, 1 failed, 1 skipped\n",
		}},
		{"a package that does not build is a failure", unbuilt, 1, []string{"undefined: x", "0 passed, 1 failed, 0 skipped\n"}},
		{"a dead test program is a failure", paniced, 1, []string{"panic: runtime error", "0 passed, 1 failed, 0 skipped\n"}},
		{"nothing ran", "go: cannot find main module\n", 1, []string{"no test ran", "0 passed, 1 failed, 0 skipped\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "events")
			require.NoError(t, os.WriteFile(file, []byte(tt.events), 0o600))
			var out bytes.Buffer
			require.Equal(t, tt.code, run([]string{file}, &out, &out), out.String())
			for _, want := range tt.want {
				require.Contains(t, out.String(), want)
			}
		})
	}
}

func TestResultsThatAreNotThere(t *testing.T) {
	var out bytes.Buffer
	require.Equal(t, 2, run([]string{"/nonexistent"}, &out, &out))
	require.Contains(t, out.String(), "cannot open test results")
}
