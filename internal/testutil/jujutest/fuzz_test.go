package jujutest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever a charm calls, it gets an answer with a status that Juju has.
func FuzzAnyCallIsAnswered(f *testing.F) {
	for _, c := range Cases() {
		f.Add(c.Args[0], strings.Join(c.Args[1:], "\x00"), c.Stdin)
	}
	f.Add("config-get", "-\x00--\x00--=x\x00-ax\x00--format", "")
	f.Fuzz(func(t *testing.T, tool, args, stdin string) {
		if strings.Contains(args, "file") { // it would read this machine's files
			return
		}
		argv := []string{tool}
		if args != "" {
			argv = append(argv, strings.Split(args, "\x00")...)
		}
		stdout, stderr, code := CaseModel(false).Begin(Hook("start")).Run(argv, []byte(stdin))
		switch code {
		case 0:
		case 1, 2:
			require.Empty(t, stdout)
			require.Contains(t, stderr, "ERROR ")
		default:
			t.Fatalf("exit %d", code)
		}
	})
}
