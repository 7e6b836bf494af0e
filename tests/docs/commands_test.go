package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/cli"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

var (
	dispatchCommand = regexp.MustCompile(`^(?:sudo )?(?:\./)?dispatch( .*)?$`)
	gpukitCommand   = regexp.MustCompile(`^(?:sudo )?gpukit ([a-z].*)$`)
	lxcCommand      = regexp.MustCompile(`^(?:sudo )?(lxc [^#]*)`)
	makeCommand     = regexp.MustCompile(`^(?:\w+=\S+ )*make ([a-z0-9-]+)`)
)

// eachCommand calls f for every piece of code on every page that looks so.
func eachCommand(t *testing.T, like *regexp.Regexp, f func(page string, m []string)) {
	t.Helper()
	n := 0
	for name, md := range pages(t) {
		for _, line := range code(md) {
			for part := range strings.SplitSeq(line, " && ") {
				if m := like.FindStringSubmatch(strings.TrimSpace(part)); m != nil {
					n++
					f(name, m)
				}
			}
		}
	}
	require.Positive(t, n)
}

func dispatch(t *testing.T, args ...string) (code int, stdout string) {
	t.Helper()
	return run(t, wellknown.Dispatch, args)
}

// run runs a command of a program.
func run(t *testing.T, program wellknown.Program, args []string) (code int, stdout string) {
	t.Helper()
	root := string(hosttest.Host(t, "amd-nvidia"))
	if slices.Contains(args, "report") {
		args = []string{"report", "--output=" + filepath.Join(t.TempDir(), "report.tar.gz")}
	}
	var out, errs bytes.Buffer
	code = cli.Main(program, append([]string{string(program)}, args...), func(key string) string {
		if key == "CHARM_ROOT" {
			return root
		}
		return ""
	}, &out, &errs)
	return code, out.String()
}

// Nothing that a person can ask of dispatch changes anything, so all of it is
// run, on a fixture host that no hook has run on.
func TestDispatchKnowsItsCommands(t *testing.T) {
	codes := map[string]int{} // many pages have the same
	eachCommand(t, dispatchCommand, func(page string, m []string) {
		m[1], _, _ = strings.Cut(m[1], " | ") // what it is piped into is another's
		for _, args := range []string{strings.NewReplacer("[", "", "]", "").Replace(m[1]), strings.Split(m[1], " [")[0]} {
			code, ran := codes[args]
			if !ran {
				code, _ = dispatch(t, strings.Fields(args)...)
				codes[args] = code
			}
			assert.NotEqual(t, 2, code, "%s: dispatch%s", page, args)
		}
	})
}

// The engine is not restarted, and no other machine is contacted.
func TestGPUKitAcceptsItsCommands(t *testing.T) {
	eachCommand(t, gpukitCommand, func(page string, m []string) {
		if strings.Contains(m[1], "USER@HOST") || slices.Contains([]string{"cdi", "runtime", "run"}, m[1]) {
			return
		}
		args, _, _ := strings.Cut(m[1], " | ") // what it is piped into is another's
		args = strings.Replace(args, "--restart", "--dry-run", 1)
		code, _ := run(t, wellknown.GPUKit, strings.Fields(args))
		assert.NotEqual(t, 2, code, "%s: gpukit %s", page, args)
	})
}

func TestCommandsPageIsTrue(t *testing.T) {
	page := readFile(t, "docs/reference/commands.md")
	listed := ""
	for _, command := range terms(page) {
		listed += command + "\n"
	}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, s := range c.Commands() {
			if s.IsAvailableCommand() && s.HasAvailableSubCommands() && s.Name() != "completion" {
				check(s)
			} else if s.IsAvailableCommand() {
				require.Regexp(t, "(?m)^"+regexp.QuoteMeta(s.CommandPath())+"( |$)", listed)
			}
		}
	}
	check(cli.Root(wellknown.Dispatch))

	want := map[string][]string{"0": {"--version"}, "1": {"plan"}, "2": {"reboot"}}
	rows := regexp.MustCompile(`(?m)^- (\d): `).FindAllStringSubmatch(page, -1)
	require.Len(t, rows, len(want))
	for _, row := range rows {
		code, _ := dispatch(t, want[row[1]]...)
		require.Equal(t, row[1], string(rune('0'+code)), "dispatch %s", want[row[1]])
	}
}

// example matches values that each page has its own of.
var example = regexp.MustCompile(`juju-[0-9a-f]+-\d+|<container>|pci=\S+| \(only 1 \w+\)`)

// The statuses show which lxc commands to run; the pages show the same, of other containers
// and GPUs.
func TestLXCCommandsAreFromTheStatuses(t *testing.T) {
	const container = "juju-4f2a10-0"
	commands, s := terms(readFile(t, statusPage)), newTexts(t)
	m := wellknown.Manager{Name: container}
	real := []string{m.OpenGPU(), m.OpenKFD("override"), m.OpenKFD("set"), m.PassKFD(), m.PassGPU("id=ID"), m.PassGPU("pci=0000:03:00.0"),
		m.Restart()}
	for _, m := range item.FindAllStringSubmatch(readFile(t, statusPage), -1) {
		for _, command := range spans(m[2]) {
			if strings.HasPrefix(command, "lxc ") {
				commands = append(commands, command)
				shown := s.has(command) || s.has("on the LXD host run: "+command) ||
					s.has("ID is the id of a card of vendor 1002 in: "+command) ||
					slices.ContainsFunc(real, func(r string) bool { return r == command || strings.HasPrefix(r, command+" (") })
				assert.True(t, shown, "%s: no status has: %s", statusPage, command)
			}
		}
	}
	statuses := example.ReplaceAllString(strings.Join(commands, "\n"), "")
	told := func(command string) bool {
		shown, shortened := strings.CutSuffix(example.ReplaceAllString(strings.TrimSpace(command), ""), "...")
		end := `( \(|[,)]| — |$)`
		if shortened {
			end = ""
		}
		return regexp.MustCompile("(?m)" + regexp.QuoteMeta(shown) + end).MatchString(statuses)
	}
	require.False(t, told("lxc config device add <container> gpu0 gpu"))
	// The one that no status names: the charm makes no folders.
	folder := regexp.MustCompile(`^lxc config device add \S+ \S+ disk source=\S+ path=/srv/\S+$`)
	eachCommand(t, lxcCommand, func(page string, c []string) {
		assert.True(t, told(c[1]) || folder.MatchString(c[1]), "%s: no status says: %s", page, c[1])
	})
}

func TestMakeTargetsAreThere(t *testing.T) {
	makefile, err := os.ReadFile(root + "/Makefile")
	require.NoError(t, err)
	eachCommand(t, makeCommand, func(page string, m []string) {
		assert.Regexp(t, `(?m)^(.* )?`+regexp.QuoteMeta(m[1])+`( .*)?:`, string(makefile), "%s: make %s", page, m[1])
	})
}

// A unit of systemd that pages name is one that the charm writes.
func TestUnitsOfSystemdAreTheCharms(t *testing.T) {
	like := regexp.MustCompile(`(?:journalctl --unit|systemctl (?:stop|start|restart|status|kill(?: --\S+)*)) ([^;|&'"]*)`)
	n := 0
	for page, md := range pages(t) {
		for _, m := range like.FindAllStringSubmatch(md, -1) {
			for _, name := range regexp.MustCompile(`concourse-[a-z-]+`).FindAllString(strings.Split(m[1], "`")[0], -1) {
				n++
				assert.FileExists(t, root+"/templates/"+name+".service", page)
			}
		}
	}
	require.Greater(t, n, 5)
}

// Without required=false a container does not start on a host that has no kfd yet.
func TestEveryPagePassesKFDAsTheCharmDoes(t *testing.T) {
	added := regexp.MustCompile(`lxc config device add (\S+) kfd [^` + "`" + `|\n]*`)
	n := 0
	for name, text := range pages(t) {
		for _, m := range added.FindAllStringSubmatch(text, -1) {
			n++
			assert.Contains(t, m[0], wellknown.Manager{Name: m[1]}.PassKFD(), name)
		}
	}
	require.Positive(t, n)
	script := readFile(t, "scripts/pass-gpu.sh")
	require.Contains(t, script, `unix-char source=/dev/kfd path=/dev/kfd "gid=$GID" required=false`)
	require.Contains(t, script, "readonly GID=44\n")
}
