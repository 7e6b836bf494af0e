package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const events = `{"Action":"start","Package":"m/a"}
{"Time":"2026-01-02T03:04:05Z","Action":"run","Package":"m/a","Test":"TestT"}
{"Time":"2026-01-02T03:04:06Z","Action":"run","Package":"m/a","Test":"TestT/two"}
{"Action":"output","Package":"m/a","Test":"TestT/two","Output":"    a_test.go:7: it is wrong\n"}
`

func TestWhatIsRunningIsShownWhileNothingEnds(t *testing.T) {
	in, feed := io.Pipe()
	var out bytes.Buffer
	ticks, done := make(chan time.Time), make(chan error, 1)
	go func() { done <- follow(in, &out, ticks) }()
	io.WriteString(feed, events)
	// The line of events before this one has been taken when a second one can be written.
	io.WriteString(feed, `{"Action":"cont","Package":"m/a","Test":"TestT/two"}`+"\n")
	io.WriteString(feed, `{"Action":"cont","Package":"m/a","Test":"TestT/two"}`+"\n")
	ticks <- time.Date(2026, 1, 2, 3, 4, 25, 0, time.UTC)
	io.WriteString(feed, `{"Action":"fail","Package":"m/a","Test":"TestT/two"}
{"Action":"fail","Package":"m/a","Test":"TestT"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t1.500s\n"}
{"Action":"fail","Package":"m/a","Elapsed":1.5}
{"Action":"output","Package":"m/b","Output":"ok  \tm/b\t0.1s\n"}
{"Action":"pass","Package":"m/b","Elapsed":0.1}
{"Action":"output","Package":"m/c","Output":"?   \tm/c\t[no test files]\n"}
{"Action":"skip","Package":"m/c"}
`)
	require.NoError(t, feed.Close())
	require.NoError(t, <-done)
	require.Equal(t, `   03:04:25 0 packages done; running a TestT/two
    a_test.go:7: it is wrong
FAIL	m/a	1.500s
ok  	m/b	0.1s
`, out.String())
}

func TestExitStatusIsFromTheTests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	for code, argv := range map[int][]string{
		0: {"-json=" + file, "echo", `{"Action":"pass","Package":"m/a"}`},
		7: {"sh", "-c", "exit 7"},
		2: {"no-such-program-at-all"},
	} {
		var out bytes.Buffer
		require.Equal(t, code, run(argv, &out, &out), out.String())
	}
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, `{"Action":"pass","Package":"m/a"}`+"\n", string(kept))
	var out bytes.Buffer
	require.Equal(t, 2, run(nil, &out, &out))
	require.Contains(t, out.String(), "cannot run nothing")
}

func TestWhatDoesNotBuildIsShown(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, follow(bytes.NewBufferString(`{"ImportPath":"m/c","Action":"build-output","Output":"c.go:1: undefined: x\n"}
{"ImportPath":"m/c","Action":"build-fail"}
go: no such module
`), &out, nil))
	require.Equal(t, "c.go:1: undefined: x\ngo: no such module\n", out.String())
}

func TestWhatATestProgramWroteWhenItDiedIsShown(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, follow(bytes.NewBufferString(`{"Action":"run","Package":"m/d","Test":"TestD"}
{"Action":"output","Package":"m/d","Test":"TestD","Output":"panic: test timed out\n"}
{"Action":"output","Package":"m/d","Output":"FAIL\tm/d\t1s\n"}
{"Action":"fail","Package":"m/d"}
`), &out, nil))
	require.Equal(t, "panic: test timed out\nFAIL\tm/d\t1s\n", out.String())
}
