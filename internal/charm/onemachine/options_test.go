package onemachine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOptionIsReplacedWhereItStands(t *testing.T) {
	const file = "mode: all\n\n# Tags of the worker.\n# tag: \"\"\n# sharing: shared\n"
	for name, c := range map[string]struct{ text, option, line, want string }{
		"a set option":             {file, "mode", "mode: worker\n", "mode: worker\n\n# Tags of the worker.\n# tag: \"\"\n# sharing: shared\n"},
		"below its comment":        {file, "tag", "tag: a\n", "mode: all\n\n# Tags of the worker.\n# tag: \"\"\ntag: a\n# sharing: shared\n"},
		"without a comment":        {file, "version", "version: 8.2.5\n", file + "version: 8.2.5\n"},
		"after a last line":        {"mode: all", "tag", "tag: a\n", "mode: all\ntag: a\n"},
		"removed":                  {file, "mode", "", file[len("mode: all\n"):]},
		"several lines":            {"a: |\n  x\n  y\nb: 1\n", "a", "a: z\n", "a: z\nb: 1\n"},
		"an option that begins so": {"tags: b\n", "tag", "tag: a\n", "tags: b\ntag: a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, replaceOption(c.text, c.option, c.line))
		})
	}
}

func TestAllProblemsOfOptionsAreNamed(t *testing.T) {
	err := checkOptions(map[string]any{"web-prt": 80, "gpu-sharing": "many", "database-url": "mysql://x", "mode": "all"})
	require.ErrorContains(t, err, "cannot use these options, so nothing was changed:\n"+
		"  web-prt: no such option; did you mean web-port?\n"+
		"  database-url: want postgresql://user:password@host:port/database\n"+
		"  gpu-sharing: \"many\" is not one of ")
	require.NoError(t, checkOptions(map[string]any{"mode": "all", "compute-runtime": "auto",
		"database-url": "postgresql://ci:pw@db:5432/ci?sslmode=require"}))
}

func TestFileOfOptionsIsRefusedIfItIsNoYAML(t *testing.T) {
	for _, text := range []string{"a: [1, 2]\n", "- a\n", "a: {b: c}\n", "a: b: c\n"} {
		_, err := parseOptions([]byte(text))
		require.ErrorContains(t, err, "cannot read "+OptionsFile, text)
	}
	got, err := parseOptions([]byte("# only\na:\nweb-port: 80\nenable-metrics: true\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"web-port": 80, "enable-metrics": true, "mode": "all", "compute-runtime": "auto"}, got,
		"a file that sets no mode is of a whole CI")
}

func FuzzOptions(f *testing.F) {
	f.Add("mode: all\n", "tag", "x")
	f.Add("# tag: \"\"\ntag: |\n  a\n", "tag", "true")
	f.Fuzz(func(t *testing.T, text, name, value string) {
		line, err := optionLine(name, value)
		if err != nil {
			return
		}
		parseOptions([]byte(replaceOption(text, name, line))) // refuses or accepts, and never panics
	})
}

func TestListeningPortsAreFound(t *testing.T) {
	inodes := map[string]int{}
	addListening(inodes, "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"+
		"   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 7801 1 0 100 0 0 10 0\n"+
		"   1: 0100007F:0016 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 7802 1 0 100 0 0 10 0\n"+
		"short\n")
	require.Equal(t, map[string]int{"socket:[7801]": 8080}, inodes)
}
