// Package remote installs and removes the GPU exporter on another machine, over the user's
// own ssh. It copies a package and runs the machine's package manager. It takes no password,
// leaves no program of its own there, and connects only to hosts that ssh has in its list.
package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
)

// Package is the package that Install installs.
const Package = "rocm-gpu-exporter"

// Node is a machine that ssh reaches.
type Node struct {
	Target string // USER@HOST, or a name of the user's ssh configuration
	// Terminal reports whether the user can answer sudo on the terminal.
	Terminal bool
	Stdin    io.Reader // for sudo; nil without a terminal
	Stdout   io.Writer
	Stderr   io.Writer

	dir string // of the connection's socket
}

// Open prepares a connection. Close ends it.
func Open(n Node) (*Node, error) {
	if n.Target == "" || strings.HasPrefix(n.Target, "-") || strings.ContainsFunc(n.Target, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}) {
		return nil, fmt.Errorf("cannot connect to %q: want USER@HOST", n.Target)
	}
	var err error
	n.dir, err = os.MkdirTemp("", "gpukit-")
	return &n, err
}

// Close ends the connection.
func (n *Node) Close() error {
	end, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	_ = n.ssh(end, nil, io.Discard, io.Discard, "-O", "exit") // fails if it was never open
	return os.RemoveAll(n.dir)
}

// endTime bounds the end of a connection.
const endTime = 10 * time.Second

func (n *Node) ssh(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, args ...string) error {
	return host.Attached(ctx, append([]string{"ssh"}, n.argv(args...)...), stdin, stdout, stderr)
}

// argv returns the arguments of ssh. All calls share one connection, so that a password is
// requested once. An unknown or changed host key is refused.
func (n *Node) argv(more ...string) []string {
	args := []string{"-o", "StrictHostKeyChecking=yes", "-o", "ControlMaster=auto", "-o", "ControlPersist=60",
		"-o", "ControlPath=" + filepath.Join(n.dir, "s")}
	if !n.Terminal {
		args = append(args, "-o", "BatchMode=yes")
	}
	end := 0
	for end < len(more) && strings.HasPrefix(more[end], "-") {
		end++
		if more[end-1] == "-O" {
			end++
		}
	}
	args = append(args, more[:end]...)
	return append(append(args, "--", n.Target), more[end:]...)
}

// run runs a shell command on the node and returns its output.
func (n *Node) run(ctx context.Context, stdin io.Reader, command string) (string, error) {
	var out, errs bytes.Buffer
	if err := n.ssh(ctx, stdin, &out, &errs, command); err != nil {
		return "", n.failure(err, errs.String())
	}
	return out.String(), nil
}

// failure explains an error of ssh, which exits with 255, or of the remote command.
func (n *Node) failure(err error, text string) error {
	var failed *host.CommandError
	last := ""
	for line := range strings.Lines(text) {
		if line = sanitize.Line(strings.TrimSpace(line), 300); line != "" {
			last = line
		}
	}
	switch {
	case !errors.As(err, &failed) || failed.Code < 0:
		return fmt.Errorf("cannot run ssh (Debian: sudo apt install openssh-client): %w", err)
	case failed.Code != 255:
		return fmt.Errorf("exit status %d: %s", failed.Code, last)
	case strings.Contains(text, "Host key verification failed"):
		return fmt.Errorf("cannot connect to %s: its host key is not in known_hosts, or changed; compare it at the "+
			"first connection: ssh %[1]s", n.Target)
	case strings.Contains(text, "Permission denied"):
		return fmt.Errorf("cannot connect to %s: %s; first make this work: ssh %[1]s", n.Target, last)
	}
	return fmt.Errorf("cannot connect to %s: %s", n.Target, last)
}

// Facts describes a node.
type Facts struct {
	Host      string `json:"host"`
	System    string `json:"system"`  // "Debian GNU/Linux 12 (bookworm)"
	Machine   string `json:"machine"` // x86_64
	Manager   string `json:"manager"` // apt-get, dpkg, dnf, yum, zypper, rpm; "" for others
	Root      bool   `json:"root"`
	Installed string `json:"installed"` // version of the package
	Active    bool   `json:"active"`    // the exporter runs
	Charm     bool   `json:"charm"`     // a unit of the charm runs an exporter
	KFD       bool   `json:"kfd"`
	GPUs      []GPU  `json:"gpus"`
}

// GPU describes an AMD GPU of a node.
type GPU struct {
	PCI    string `json:"pci"`
	ID     string `json:"id"`     // of the device: 0x744c
	Driver string `json:"driver"` // "" without one
}

// factsScript prints a line for each fact. PCI classes 03 are display controllers, and 12
// accelerators; 0x1002 is AMD.
const factsScript = `
echo "host $(uname -n)"
(. /etc/os-release 2>/dev/null; echo "system ${PRETTY_NAME:-$(uname -s)}")
echo "machine $(uname -m)"
echo "uid $(id -u)"
for m in apt-get dpkg dnf yum zypper rpm; do
	if command -v $m >/dev/null 2>&1; then echo "manager $m"; break; fi
done
if command -v dpkg-query >/dev/null 2>&1; then
	v=$(dpkg-query -W -f '${db:Status-Status} ${Version}' rocm-gpu-exporter 2>/dev/null) && case $v in installed*) echo "version ${v#* }" ;; esac
elif command -v rpm >/dev/null 2>&1; then
	v=$(rpm -q --qf '%{VERSION}' rocm-gpu-exporter 2>/dev/null) && echo "version $v"
fi
systemctl is-active --quiet rocm-gpu-exporter.service 2>/dev/null && echo "active yes"
[ -e /etc/systemd/system/concourse-pebble.service ] && echo "charm yes"
[ -c /dev/kfd ] && echo "kfd yes"
for d in /sys/bus/pci/devices/*; do
	[ "$(cat "$d/vendor" 2>/dev/null)" = 0x1002 ] || continue
	case $(cat "$d/class") in 0x03* | 0x12*) ;; *) continue ;; esac
	driver=$(readlink "$d/driver") && driver=${driver##*/} || driver=
	echo "gpu ${d##*/} $(cat "$d/device") $driver"
done
exit 0
`

// Detect reads the facts of a node. It changes nothing there.
func (n *Node) Detect(ctx context.Context) (Facts, error) {
	out, err := n.run(ctx, strings.NewReader(factsScript), "sh -s")
	if err != nil {
		return Facts{}, err
	}
	f := parseFacts(out)
	if f.Machine == "" {
		return f, fmt.Errorf("cannot read the facts of %s: it has no usual shell; its answer begins with %q", n.Target,
			sanitize.Line(out, 80))
	}
	return f, nil
}

// parseFacts reads the output of factsScript. A login may print additional lines.
func parseFacts(out string) (f Facts) {
	f.GPUs = []GPU{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(sanitize.Line(strings.TrimSpace(line), 200), " ")
		switch key {
		case "host":
			f.Host = value
		case "system":
			f.System = value
		case "machine":
			f.Machine = value
		case "uid":
			f.Root = value == "0"
		case "manager":
			f.Manager = value
		case "version":
			f.Installed = value
		case "active":
			f.Active = true
		case "charm":
			f.Charm = true
		case "kfd":
			f.KFD = true
		case "gpu":
			if w := strings.Fields(value); len(w) >= 2 {
				f.GPUs = append(f.GPUs, GPU{PCI: w[0], ID: w[1], Driver: strings.Join(w[2:], " ")})
			}
		}
	}
	return f
}

// Write writes the facts for people.
func (f Facts) Write(w io.Writer, target string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %s\n", target, f.System, f.Machine)
	fmt.Fprintln(&b, units.Count(len(f.GPUs), "AMD GPU"))
	for _, g := range f.GPUs {
		driver := "no driver"
		if g.Driver != "" {
			driver = "driver " + g.Driver
		}
		fmt.Fprintf(&b, "  %s  %s  %s\n", g.PCI, g.ID, driver)
	}
	if !f.KFD && len(f.GPUs) > 0 {
		b.WriteString("/dev/kfd is missing: programs cannot compute on the GPUs\n")
	}
	switch {
	case f.Charm:
		b.WriteString("a unit of the charm runs an exporter\n")
	case f.Installed == "":
		b.WriteString(Package + " is not installed\n")
	case f.Active:
		fmt.Fprintf(&b, "%s %s runs\n", Package, f.Installed)
	default:
		fmt.Fprintf(&b, "%s %s is installed and does not run\n", Package, f.Installed)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

var (
	// remoteFolder matches the output of mktemp, which becomes part of a command.
	remoteFolder = lazyregexp.New(`^/[A-Za-z0-9._/-]+$`)
	architecture = map[string]string{"x86_64": "amd64", "aarch64": "arm64"}
)
