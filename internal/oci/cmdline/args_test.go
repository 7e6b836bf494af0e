package cmdline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const globals = "--root /run/containerd/runc/concourse --log /b/log.json --log-format json "

func TestArgs(t *testing.T) {
	create := func(bundle string) Call { return Call{Command: "create", ID: "c1", Bundle: bundle} }
	exec := func(at int, prefix, value string) Call {
		return Call{Command: "exec", ID: "c1", Process: Word{at, prefix, value}}
	}
	logged := func(c Call) Call {
		c.Log, c.LogFormat, c.Root = "/b/log.json", "json", "/run/containerd/runc/concourse"
		return c
	}
	for line, want := range map[string]Call{
		// As containerd's shim calls runc for Concourse.
		globals + "create --bundle /b --pid-file /b/init.pid --no-new-keyring c1": logged(
			Call{Command: "create", ID: "c1", Bundle: "/b", PidFile: "/b/init.pid"}),
		globals + "exec --process /tmp/p --detach --pid-file /b/x c1":                logged(exec(8, "", "/tmp/p")),
		globals + "exec --process /tmp/p --console-socket /tmp/s -d --pid-file x c1": logged(exec(8, "", "/tmp/p")),
		globals + "start c1":          logged(Call{Command: "start", ID: "c1"}),
		"start":                       {},
		"start --help":                {},
		globals + "delete --force c1": logged(Call{}),
		globals + "kill --all c1 9":   logged(Call{}),
		// The bundle in each form; the predecessor knew one (D47).
		"create --bundle /b c1":   create("/b"),
		"create --bundle=/b c1":   create("/b"),
		"create -bundle /b c1":    create("/b"),
		"create -bundle=/b c1":    create("/b"),
		"create -b /b c1":         create("/b"),
		"create -b=/b c1":         create("/b"),
		"create --b /b c1":        create("/b"),
		"create c1":               create("."),
		"create --bundle= c1":     create("."),
		"create c1 --bundle /b":   create("/b"),
		"create c1 -b=/b":         create("/b"),
		"create -b /b -- c1":      create("/b"),
		"create -b /a -b /b c1":   create("/b"),
		"create -b create c1":     create("create"),
		"create -b /x=y c1":       create("/x=y"),
		"create --bundle=/x=y c1": create("/x=y"),
		"create --no-pivot=true --preserve-fds 3 -b /b c1": create("/b"),
		"create --pidfd-socket /s -b /b c1":                create("/b"),
		"-- create -b /b c1":                               create("/b"),
		"--debug create -b /b c1":                          create("/b"),
		"--debug=false create -b /b c1":                    create("/b"),
		"--systemd-cgroup --rootless auto create -b /b c1": create("/b"),
		"--criu create create -b /b c1":                    create("/b"),
		"-log /l -log-format=text create -b /b c1": {Command: "create", ID: "c1", Bundle: "/b",
			Log: "/l", LogFormat: "text"},
		"run -b /b c1":                      {Command: "run", ID: "c1", Bundle: "/b"},
		"run -d --keep -b /b c1":            {Command: "run", ID: "c1", Bundle: "/b"},
		"run --no-subreaper --bundle=/b c1": {Command: "run", ID: "c1", Bundle: "/b"},
		"run --pid-file=x c1 --pid-file y":  {Command: "run", ID: "c1", Bundle: ".", PidFile: "y"},
		// exec: nothing after the ID is a flag of runc.
		"exec -p /tmp/p c1":          exec(2, "", "/tmp/p"),
		"exec -p=/tmp/p c1":          exec(1, "-p=", "/tmp/p"),
		"exec --process=/tmp/p c1":   exec(1, "--process=", "/tmp/p"),
		"exec -process /tmp/p c1":    exec(2, "", "/tmp/p"),
		"exec -t -e A=b c1 sh -p /x": {Command: "exec", ID: "c1"},
		"exec c1 --process /tmp/p":   {Command: "exec", ID: "c1"},
		// Not ours: the word create is in another place.
		"delete create x":                   {},
		"--log create state c1":             {Log: "create"},
		"--root create kill c1":             {Root: "create"},
		"state create":                      {},
		"events --stats create --bundle /b": {},
		"":                                  {},
		"create":                            {},
		"create a b":                        {},
		"create c1 -- -b /b":                {},
		"create --bundle":                   {},
		"create --no-pivot=maybe c1":        {},
		"create -b /a --bundle /b c1":       {},
		"create --help":                     {},
		"create -h -b /b c1":                {},
		"--version":                         {},
		"-v create -b /b c1":                {},
		"--help create -b /b c1":            {},
		"---x create":                       {},
		"exec --process /a -p /b c1":        {},
		"exec --newflag c1":                 {},
		"--newflag state c1":                {},
		"features":                          {},
	} {
		got, err := Parse(strings.Fields(line))
		require.NoError(t, err, line)
		require.Equal(t, want, got, line)
	}
}

// runc takes the word after any flag along when it reorders, and then refuses
// the call; an edit by the wrapper would be for nothing.
func TestArgsReorderedAsRuncDoes(t *testing.T) {
	got, err := Parse(strings.Fields("create --no-pivot c1 -b /b"))
	require.NoError(t, err)
	require.Empty(t, got.Command)
}

func TestCreateWithAFlagOfALaterRuncIsRefused(t *testing.T) {
	for _, line := range []string{"create --later -b /b c1", "run -b /b --later c1", "--later create -b /b c1"} {
		_, err := Parse(strings.Fields(line))
		require.ErrorIs(t, err, errUnknownFlag, line)
		require.ErrorContains(t, err, "--later", line)
	}
}

// Calls recorded on a real worker, if the machine has one.
func TestArgsOfRecordedCalls(t *testing.T) {
	data, err := os.ReadFile(hosttest.Captures(t, "samples/runc-calls.log"))
	require.NoError(t, err)
	seen := map[string]int{}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		c, err := Parse(words)
		require.NoError(t, err)
		seen[c.Command]++
		require.Equal(t, "json", c.LogFormat)
		if c.Command != "" {
			require.Equal(t, filepath.Base(filepath.Dir(c.Log)), c.ID)
		}
		if c.Command == "exec" {
			require.Contains(t, words[c.Process.At], "/tmp/runc-process")
		}
	}
	require.NotZero(t, seen["create"])
	require.Equal(t, seen["create"], seen["exec"])
	require.Equal(t, seen["create"], seen["start"])
}

func FuzzParseArgs(f *testing.F) {
	for _, s := range []string{"create -b /b c1", globals + "exec -p=/x c1", "--log create state",
		"run c1 --bundle", "-- create -- -b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		c, err := Parse(args)
		if err != nil && c.Command != "" {
			t.Fatal("a refused call has a command")
		}
		switch c.Command {
		case "":
		case "create", "run":
			if c.Bundle == "" {
				t.Fatal("no bundle")
			}
		case "exec":
			if v := c.Process; v.Value != "" && args[v.At] != v.Prefix+v.Value {
				t.Fatalf("%+v is not in %q", v, args)
			}
		default:
			t.Fatalf("command %q", c.Command)
		}
	})
}
