package onemachine

import (
	"io/fs"
	"os"
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/actions"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestAllProblemsOfOptionsAreNamed(t *testing.T) {
	m := machineOn(t, hosttest.Root(t)).Model
	err := m.checkOptions(map[string]any{"web-prt": 80, "gpu-sharing": "many", "database-url": "mysql://x", "mode": "all"})
	require.ErrorContains(t, err, "cannot use these options, so nothing was changed:\n"+
		"  web-prt: no such option; did you mean web-port?\n"+
		"  database-url: want postgresql://user:password@host:port/database\n"+
		"  gpu-sharing: \"many\" is not one of ")
	require.ErrorContains(t, m.checkOptions(map[string]any{"mode": "all", "web-prt": 80}), "did you mean web-port?")
	require.NoError(t, m.checkOptions(map[string]any{"mode": "all", "compute-runtime": "auto",
		"database-url": "postgresql://ci:pw@db:5432/ci?sslmode=require"}))
}

func TestFileOfOptionsIsRefusedIfItIsNotYAML(t *testing.T) {
	for _, text := range []string{"a: [1, 2]\n", "- a\n", "a: {b: c}\n", "a: b: c\n"} {
		_, err := parseOptions([]byte(text))
		require.ErrorContains(t, err, "cannot read "+OptionsFile, text)
	}
	for _, text := range []string{"web-port: 80\nenable-metrics: true\ntag: \"10\"\n", "web-port: \"80\"\nenable-metrics: 'true'\ntag: '10'\n"} {
		got, err := parseOptions([]byte("# only\na:\n" + text))
		require.NoError(t, err)
		require.Equal(t, map[string]any{"web-port": 80, "enable-metrics": true, "tag": "10", "mode": "all", "compute-runtime": "auto"}, got,
			"a file that sets no mode is of a whole CI")
	}
}

// A file of the operator that is a link to another one stays, unless others may read its
// passwords.
func TestUnchangedOptionsAreNotWritten(t *testing.T) {
	m := machineOn(t, hosttest.Root(t))
	m.Charm = &actions.Actions{Charm: &charm.Charm{}}
	const text = "mode: all\n"
	hosttest.Put(t, m.Model.Host.Root, "/srv/ci.yaml", text)
	hosttest.Put(t, m.Model.Host.Root, path.Dir(OptionsFile)+"/x", "")
	file := m.Model.Host.Path(OptionsFile)
	require.NoError(t, os.Symlink("../../srv/ci.yaml", file))
	isLink := func() bool {
		st, err := os.Lstat(file)
		require.NoError(t, err)
		return st.Mode()&fs.ModeSymlink != 0
	}
	require.NoError(t, os.Chmod(file, 0o600))
	require.NoError(t, m.chooseOptions(""))
	require.True(t, isLink())
	require.NoError(t, os.Chmod(file, 0o644))
	require.NoError(t, m.chooseOptions(""))
	require.False(t, isLink())
	st, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), st.Mode())
	got, err := m.Model.Host.ReadFile(OptionsFile)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

func TestListeningPortsAreFound(t *testing.T) {
	inodes := map[string]int{}
	addListening(inodes, "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"+
		"   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 7801 1 0 100 0 0 10 0\n"+
		"   1: 0100007F:0016 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 7802 1 0 100 0 0 10 0\n"+
		"short\n")
	require.Equal(t, map[string]int{"socket:[7801]": 8080}, inodes)
}
