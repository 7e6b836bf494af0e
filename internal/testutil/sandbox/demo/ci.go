package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/onemachine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
)

const (
	// machineAddress is the address of the CI's machine in its network.
	machineAddress = "10.99.0.10"
	// fixture is the host with the stand-in GPUs.
	fixture = "mi210x4"
	// patience bounds each wait for the CI.
	patience = 5 * time.Minute
	tick     = 200 * time.Millisecond
	// brokenPipe is the report that the output was closed.
	brokenPipe = "the output was closed"
)

// ci plays the CI's scenes, as process 1 of the namespaces.
type ci struct {
	story
	place
	log     *os.File
	guest   *guest.Guest
	url     string
	secret  string // the administrator's password
	running map[string]*build
}

// InNamespaces runs the CI's scenes if this program was started for it.
func InNamespaces() (code int, done bool) {
	text := os.Getenv(insideEnv)
	if text == "" {
		return 0, false
	}
	os.Unsetenv(insideEnv)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // it becomes an error
	report := os.NewFile(reportFile, "report")
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &ci{running: map[string]*build{}}
	c.ctx, c.screen = ctx, newScreen(os.Stdout, os.Getenv, cancel)
	err := json.Unmarshal([]byte(text), &c.place)
	if err == nil {
		err = c.run(func() { fmt.Fprintln(report, serving) })
	}
	if c.screen.err != nil {
		fmt.Fprintln(report, brokenPipe)
		return 1, true
	}
	if err != nil {
		fmt.Fprintln(report, strings.Join(strings.Fields(err.Error()), " "))
		return 1, true
	}
	return 0, true
}

// run plays the scenes, and then waits on a terminal until the process is killed.
func (c *ci) run(waits func()) (err error) {
	if c.log, err = os.OpenFile(c.Log, os.O_WRONLY|os.O_APPEND, 0); err != nil {
		return err
	}
	defer c.log.Close()
	err = c.play([]scene{
		{"a machine", c.boot},
		{"a whole CI by one command", c.up},
		{"a build on its GPU", c.firstBuild},
		{"a build waits for its lease", c.lease},
		{"a sick GPU is avoided", c.sickGPU},
	})
	if err != nil && c.guest != nil {
		out, _ := c.guest.Run("systemctl --failed --no-legend; journalctl --quiet --lines=300 --output=short-monotonic")
		fmt.Fprintln(c.log, out) // the machine's journal for the reader of the log
	}
	c.summary(err)
	if err != nil {
		return err
	}
	if why := noWait(os.Stdout, os.Getenv); why != "" {
		c.screen.mark(notRun, "a look at the CI: %s", why)
		return nil
	}
	c.yourTurn()
	waits()
	select {}
}

// boot makes the machine and starts it.
func (c *ci) boot() (string, error) {
	c.screen.title("A throwaway machine with two stand-in GPUs")
	if err := c.screen.work("unpack the Debian", func(func(string)) error { return c.makeMachine() }); err != nil {
		return "", err
	}
	if err := c.screen.work("boot it with systemd as its process 1", func(func(string)) error {
		return c.guest.Boot(c.ctx)
	}); err != nil {
		return "", err
	}
	name, err := c.in(`. /etc/os-release; echo "$PRETTY_NAME, $(systemctl --version | head -n 1 | cut -d' ' -f1,2)"`)
	if err != nil {
		return "", err
	}
	c.screen.item("machine", "%s, address %s", strings.TrimSpace(name), machineAddress)
	c.screen.item("stand-in", "for two AMD Instinct MI210: files of a fixture as sysfs, and nodes of other devices of "+
		"this kernel. A task that opens its GPU opens such a device.")
	if err := errors.Join(forward(webFile, machineAddress+":"+portOf(c.Web)),
		forward(pageFile, machineAddress+":9401")); err != nil {
		return "", err
	}
	c.url = "http://" + c.Web
	return strings.TrimSpace(name), nil
}

// makeMachine makes the machine's files.
func (c *ci) makeMachine() error {
	if err := guest.MakeNetwork(); err != nil {
		return err
	}
	lower := filepath.Join(c.Dir, "debian")
	if err := debian.Unpack(c.ctx, c.Debian, lower); err != nil {
		return err
	}
	if err := guest.Prepare(lower); err != nil {
		return err
	}
	dir := filepath.Join(c.Dir, "demo")
	root := host.Root(filepath.Join(dir, "root"))
	c.guest = &guest.Guest{Dir: dir, Root: root, Lower: lower, Groups: c.Groups, Address: machineAddress, Log: c.log}
	if err := c.guest.CopyHost(filepath.Join(c.Source, hosts, fixture), "gpu-demo"); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(c.Dir, releaseFile), root.Path("/root/"+releaseFile)); err != nil {
		return err
	}
	for _, gpu := range gpus { // memory that no process of the machine uses keeps tasks from a GPU
		counts := gpu.errors(root)
		memory := filepath.Join(filepath.Dir(counts), "../mem_info_vram_used")
		if err := errors.Join(root.WriteFile(counts, []byte("ue: 0\nce: 0\n"), 0o644),
			root.WriteFile(memory, []byte("0\n"), 0o644)); err != nil {
			return err
		}
	}
	if err := c.guest.MakeRoot(); err != nil {
		return err
	}
	if err := errors.Join(c.guest.AddRepository(c.ctx, c.Debs),
		c.guest.AddPackage(filepath.Join(c.Dir, "charm"), c.Source),
		root.MkdirAll("/srv/demo", 0o755)); err != nil {
		return err
	}
	return root.WriteFile(onemachine.OptionsFile, c.options(), 0o600)
}

// options returns the file with the options of the CI.
func (c *ci) options() []byte {
	all := options{"mode": "all", "compute-runtime": "auto", "gpu-sharing": "exclusive",
		"amd-container-toolkit": "skip", // the machine has no network but this one
		"external-url":          "http://" + c.Web, "web-port": portOf(c.Web)}
	maps.Copy(all, c.Options)
	var text []byte
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text = fmt.Appendf(text, "%s: %s\n", name, all[name])
	}
	return text
}

// portOf returns the port of an address.
func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address) // an address of a listener
	return port
}

// in runs a shell line in the machine and logs it.
func (c *ci) in(line string) (string, error) { return c.stream(line, func(string) {}) }

// stream runs a shell line in the machine, logs it, and reports each line of its output.
func (c *ci) stream(line string, report func(string)) (string, error) {
	argv := c.guest.Enter([]string{"PATH=" + guest.Path, "HOME=/root"}, "/bin/sh", "-c", line)
	cmd := exec.CommandContext(c.ctx, argv[0], argv[1:]...)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	fmt.Fprintf(c.log, "$ %s\n", line)
	var out strings.Builder
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewReader(r); ; {
			text, err := lines.ReadString('\n')
			if text != "" {
				out.WriteString(text)
				fmt.Fprint(c.log, text)
				report(strings.TrimSpace(text))
			}
			if err != nil {
				return
			}
		}
	}()
	err := cmd.Run()
	w.Close()
	<-read
	if err != nil {
		last := strings.Split(strings.TrimSpace(out.String()), "\n")
		return out.String(), fmt.Errorf("cannot run %s: %w: %s", line, err, last[len(last)-1])
	}
	return out.String(), nil
}

// until waits until is returns true.
func (c *ci) until(what string, is func() (bool, error)) error {
	for end := time.Now().Add(patience); ; time.Sleep(tick) {
		if ok, err := is(); ok || err != nil {
			return err
		}
		if err := context.Cause(c.ctx); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("cannot see that %s: it took more than %s", what, patience)
		}
	}
}

// shows prints a command and its output in the machine, and returns the output.
func (c *ci) shows(command string) (out string, err error) {
	if out, err = c.in(command); err != nil {
		return "", err
	}
	c.screen.item("$", "%s", command)
	c.screen.output(out)
	return out, nil
}

// up sets up the CI.
func (c *ci) up() (string, error) {
	c.screen.title("A whole CI: web, worker with the GPUs, PostgreSQL")
	if _, err := c.shows("cat " + onemachine.OptionsFile); err != nil {
		return "", err
	}
	command := "concourse-ci-machine up --release " + releaseFile
	c.screen.item("$", "sudo %s", command)
	if err := c.screen.work("set up the CI", func(report func(string)) error {
		out, err := c.stream("cd /root && "+command, report)
		if err != nil && !strings.Contains(out, onemachine.ErrNotReady.Error()) {
			return err
		}
		if err := c.ready(report); err != nil {
			return err
		}
		// The timer's run: the web then knows how many GPUs the worker has.
		if _, err := c.stream("systemctl start concourse-ci-machine.service", report); err != nil {
			return err
		}
		return c.ready(report)
	}); err != nil {
		return "", err
	}
	out, err := c.shows(showStatus)
	if err != nil {
		return "", err
	}
	if tag := fmt.Sprintf("gpu-count=%d", len(gpus)); !strings.Contains(out, tag) {
		return "", fmt.Errorf("cannot see that the worker has its GPUs: the tag %s is missing", tag)
	}
	out, err = c.guest.Run(getPassword) // not into the log
	if err != nil || out == "" {
		return "", fmt.Errorf("cannot run %s: %w: %s", getPassword, err, out)
	}
	c.secret = out
	return "active, with the tags of two GPUs", nil
}

// getPassword prints the administrator's password alone.
const getPassword = "concourse-ci-machine get-admin-password | sed -n 's/^password: //p'"

// ready waits until the CI works. A worker on a slow machine registers after up.
func (c *ci) ready(report func(string)) error {
	last := ""
	err := c.until("the CI is ready", func() (bool, error) {
		out, err := c.guest.Run(showStatus)
		last, _, _ = strings.Cut(out, "\n\n")
		report(last)
		if strings.HasPrefix(last, string(juju.Blocked)) {
			return false, errors.New("cannot set up the CI")
		}
		return err == nil, nil
	})
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.ReplaceAll(last, "\n ", ";"))
	}
	return err
}

// showStatus prints the status, and fails until the CI works.
const showStatus = "concourse-ci-machine status"

// yourTurn shows how to look at the CI.
func (c *ci) yourTurn() {
	c.screen.title("Your turn: a CI with two GPUs")
	c.screen.item("web", "%s", c.url)
	c.screen.item("login", "user admin, password %s", c.secret)
	c.screen.item("pipeline", "%s/teams/main/pipelines/%s: start a job with +", c.url, pipelineName)
	c.screen.item("GPUs", "http://%s", c.Page)
	c.screen.item("over ssh", "first run on your machine:")
	c.screen.item("", "ssh -L %s:%s -L %s:%s USER@HOST", portOf(c.Web), c.Web, portOf(c.Page), c.Page)
	c.screen.item("Ctrl-C", "ends the CI and removes its machine")
}
