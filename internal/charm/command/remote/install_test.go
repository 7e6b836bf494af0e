package remote

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeSSH answers the facts from $NODE/facts and runs every other command in a shell of this
// machine, with the programs in $NODE/bin. It records the commands in $NODE/log.
const fakeSSH = `#!/bin/sh
while [ "$1" != -- ]; do
	[ "$1" = -O ] && exit 0
	shift
done
shift 2
case $1 in
"sh -s") cat "$NODE/facts"; exit ;;
esac
echo "$1" >>"$NODE/log"
PATH=$NODE/bin:$PATH exec sh -c "$1"
`

const facts = "host node\nsystem Debian\nmachine x86_64\nuid 0\nmanager dpkg\nkfd yes\ngpu 0000:03:00.0 0x744c amdgpu\n"

// node is a fake machine that a fake ssh reaches.
type node struct {
	*Node
	dir      string
	out, err strings.Builder
}

func newNode(t *testing.T, facts string) *node {
	t.Helper()
	n := &node{dir: t.TempDir()}
	t.Setenv("NODE", n.dir)
	t.Setenv("PATH", filepath.Join(n.dir, "ssh")+":"+os.Getenv("PATH"))
	n.program(t, "ssh/ssh", fakeSSH)
	// The package manager installs what it got, and the exporter runs.
	n.program(t, "bin/dpkg", `#!/bin/sh
[ "$1" = --install ] && cp "$2" "$NODE/installed"
printf 'version 1.2\nactive yes\n' >>"$NODE/facts"
`)
	n.write(t, "facts", facts)
	n.write(t, "rocm-gpu-exporter_amd64.deb", "the package")
	var err error
	n.Node, err = Open(Node{Target: "ann@node", Stdout: &n.out, Stderr: &n.err})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

func (n *node) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(n.dir, name)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o644))
}

func (n *node) program(t *testing.T, name, text string) {
	t.Helper()
	n.write(t, name, text)
	require.NoError(t, os.Chmod(filepath.Join(n.dir, name), 0o755))
}

// log returns the commands that the node ran, without the name of the folder of the copy.
func (n *node) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.dir, "log"))
	require.NoError(t, err)
	for _, line := range strings.Split(string(text), "\n") {
		if dir, ok := strings.CutPrefix(line, "rm -rf "); ok {
			require.NoDirExists(t, dir)
			return strings.ReplaceAll(string(text), dir, "DIR")
		}
	}
	t.Fatalf("the copy stays: %s", text)
	return ""
}

const (
	makeFolder = `d=$(mktemp -d /tmp/gpukit.XXXXXX) && chmod 755 "$d" && echo "$d"` + "\n"
	copied     = "cat >DIR/rocm-gpu-exporter_amd64.deb && sha256sum DIR/rocm-gpu-exporter_amd64.deb\n"
	installs   = "dpkg --install DIR/rocm-gpu-exporter_amd64.deb\n"
	removes    = "rm -rf DIR\n"
)

func TestPackageIsCopiedInstalledAndRemovedAgain(t *testing.T) {
	n := newNode(t, facts)
	require.NoError(t, n.Install(t.Context(), n.dir))
	require.Equal(t, makeFolder+copied+installs+removes, n.log(t))
	got, err := os.ReadFile(filepath.Join(n.dir, "installed"))
	require.NoError(t, err)
	require.Equal(t, "the package", string(got))
	require.Equal(t, "rocm-gpu-exporter 1.2 runs on ann@node: http://node:9401/\n", n.out.String())
}

// Root would install the copy, so it is compared with the file before.
func TestCopyThatDiffersIsNotInstalled(t *testing.T) {
	for name, program := range map[string]string{
		"another sum":  "#!/bin/sh\necho " + strings.Repeat("0", 64) + " \"$1\"\n",
		"a longer sum": "#!/bin/sh\necho $(/usr/bin/sha256sum \"$1\" | cut -c-64)0 \"$1\"\n",
		"no sum":       "#!/bin/sh\n",
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, facts)
			n.program(t, "bin/sha256sum", program)
			require.ErrorContains(t, n.Install(t.Context(), n.dir), "to ann@node: the copy differs")
			require.Equal(t, makeFolder+copied+removes, n.log(t))
			require.NoFileExists(t, filepath.Join(n.dir, "installed"))
		})
	}
}

func TestCopyIsRemovedIfTheInstallationFails(t *testing.T) {
	n := newNode(t, facts)
	n.program(t, "bin/dpkg", "#!/bin/sh\nexit 7\n")
	require.EqualError(t, n.Install(t.Context(), n.dir), "cannot install rocm-gpu-exporter on ann@node: exit status 7, see above")
	require.Equal(t, makeFolder+copied+installs+removes, n.log(t))

	n = newNode(t, facts)
	n.program(t, "bin/dpkg", "#!/bin/sh\nprintf 'version 1.2\\n' >>\"$NODE/facts\"\n")
	require.ErrorContains(t, n.Install(t.Context(), n.dir), "is installed on ann@node and does not run; there: journalctl -u rocm-gpu-exporter")
}

func TestMachinesThatCannotHaveThePackageAreRefused(t *testing.T) {
	for facts, want := range map[string]string{
		facts + "charm yes\n":                                "a unit of the charm serves port 9401 there already",
		"machine x86_64\nmanager pacman\n":                   "it has none of apt-get, dpkg",
		"machine riscv64\nmanager apt-get\n":                 "no package exists for riscv64",
		"machine aarch64\nmanager rpm\n":                     "rocm-gpu-exporter_arm64.rpm: download it from the release",
		"This account is not available.\n":                   "it has no usual shell; its answer begins with \"This account",
		strings.Replace(facts, "x86_64", "aarch64", 1):       "rocm-gpu-exporter_arm64.deb",
		strings.Replace(facts, "manager dpkg", "other x", 1): "it has none of",
	} {
		n := newNode(t, facts)
		require.ErrorContains(t, n.Install(t.Context(), n.dir), want, facts)
		require.NoFileExists(t, filepath.Join(n.dir, "log"), "nothing was changed")
	}
}

// The folder's name becomes part of a command of root.
func TestFolderOfTheCopyIsOnePath(t *testing.T) {
	n := newNode(t, facts)
	n.program(t, "ssh/ssh", strings.Replace(fakeSSH, "\necho", "\necho Welcome\necho", 1))
	n.program(t, "bin/mktemp", "#!/bin/sh\nmkdir \"$NODE/copy\" && echo \"$NODE/copy\"\n")
	require.ErrorContains(t, n.Install(t.Context(), n.dir), "its login prints text before a command's output")
	require.NoFileExists(t, filepath.Join(n.dir, "installed"))
}

func TestCommandsOfAUserRunWithSudo(t *testing.T) {
	n := newNode(t, facts)
	n.program(t, "bin/sudo", "#!/bin/sh\necho \"sudo: a password is required\" >&2; exit 1\n")
	err := n.AsRoot(t.Context(), Facts{}, "id", &n.out)
	require.EqualError(t, err, "exit status 1; without a terminal sudo must need no password there, or connect as root")
	n.Terminal = true
	require.EqualError(t, n.AsRoot(t.Context(), Facts{}, "id", &n.out), "exit status 1, see above")
	require.NoError(t, n.AsRoot(t.Context(), Facts{Root: true}, "true", &n.out))
	text, err := os.ReadFile(filepath.Join(n.dir, "log"))
	require.NoError(t, err)
	require.Equal(t, "sudo -n id\nsudo id\ntrue\n", string(text))
}

func TestUninstallRemovesTheConfigurationToo(t *testing.T) {
	n := newNode(t, facts)
	require.NoError(t, n.Uninstall(t.Context()))
	require.Equal(t, "rocm-gpu-exporter is not installed on ann@node\n", n.out.String())
	require.NoFileExists(t, filepath.Join(n.dir, "log"))

	n = newNode(t, facts+"version 1.2\n")
	require.NoError(t, n.Uninstall(t.Context()))
	text, err := os.ReadFile(filepath.Join(n.dir, "log"))
	require.NoError(t, err)
	require.Equal(t, "dpkg --purge rocm-gpu-exporter\n", string(text))
	require.Equal(t, "rocm-gpu-exporter is removed from ann@node\n", n.out.String())

	n = newNode(t, "machine x86_64\nversion 1.2\n")
	require.ErrorContains(t, n.Uninstall(t.Context()), "it has no package manager that is known")
}

// ssh exits with 255 for its own failures.
func TestFailuresOfSSHNameTheirFix(t *testing.T) {
	for text, want := range map[string]string{
		"Host key verification failed.":  "its host key is not in known_hosts, or changed; compare it at the first connection: ssh ann@node",
		"Permission denied (publickey).": "cannot connect to ann@node: Permission denied (publickey).; first make this work: ssh ann@node",
		"No route to host":               "cannot connect to ann@node: No route to host",
	} {
		n := newNode(t, facts)
		n.program(t, "ssh/ssh", "#!/bin/sh\necho '"+text+"' >&2\nexit 255\n")
		_, err := n.Detect(t.Context())
		require.ErrorContains(t, err, want)
	}
	n := newNode(t, facts)
	n.program(t, "ssh/ssh", "#!/bin/sh\necho first >&2; echo last >&2\nexit 3\n")
	_, err := n.Detect(t.Context())
	require.EqualError(t, err, "exit status 3: last")
}
