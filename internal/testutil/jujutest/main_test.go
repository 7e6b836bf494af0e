package jujutest

import (
	"os"
	"testing"
)

// The test binary is the hook tools, too: they are links to it.
func TestMain(m *testing.M) {
	if IsTool(os.Args[0]) {
		os.Exit(ToolMain(os.Args, os.Stdin, os.Stdout, os.Stderr, os.Getenv))
	}
	os.Exit(m.Run())
}
