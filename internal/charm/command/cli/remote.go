package cli

import (
	"os"
	"os/signal"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/remote"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
)

const sshText = "It uses your ssh with its configuration and keys. The host key must be in known_hosts, so connect once " +
	"by hand before."

// remoteCommands returns the commands for the exporter on other machines.
func (p *caller) remoteCommands() []command {
	from := "."
	all := []command{
		{words: "detect", args: "USER@HOST", json: true,
			text: "show the AMD GPUs of another machine, and whether the exporter runs there",
			long: "Reads the AMD GPUs of another machine and changes nothing there.\n\n" + sshText,
			run: func(a []string) error {
				return p.onNode(a[0], func(n *remote.Node) error {
					f, err := n.Detect(p.ctx)
					switch {
					case err != nil:
						return err
					case p.format.JSON:
						return term.JSON(p.stdout, f)
					}
					return f.Write(p.stdout, a[0])
				})
			}},
		{words: "install-exporter", args: "USER@HOST",
			text: "install rocm-gpu-exporter on another machine over ssh",
			long: "Copies the package rocm-gpu-exporter to another machine, and runs its package manager with sudo, or " +
				"as root.\n\n" + sshText,
			example: "gpukit install-exporter --package=Downloads/ ann@node1",
			flags: func(fs *pflag.FlagSet) {
				fs.StringVar(&from, "package", from, "`PATH` of the package, or of a folder with the packages")
			},
			run: func(a []string) error {
				return p.onNode(a[0], func(n *remote.Node) error { return n.Install(p.ctx, from) })
			}},
		{words: "uninstall-exporter", args: "USER@HOST",
			text: "remove rocm-gpu-exporter from another machine over ssh",
			long: "Removes the package rocm-gpu-exporter from another machine, with its configuration.\n\n" + sshText,
			run: func(a []string) error {
				return p.onNode(a[0], func(n *remote.Node) error { return n.Uninstall(p.ctx) })
			}},
	}
	for i := range all {
		all[i].min, all[i].max, all[i].only = 1, 1, wellknown.GPUKit
		all[i].values = func() []string { return nil }
	}
	return all
}

// onNode connects to a machine. Ctrl-C ends the command and removes what was copied.
func (p *caller) onNode(target string, do func(*remote.Node) error) error {
	_, err := unix.IoctlGetTermios(int(os.Stdin.Fd()), unix.TCGETS)
	n := remote.Node{Target: target, Terminal: err == nil, Stdout: p.stdout, Stderr: p.stderr}
	if n.Terminal {
		n.Stdin = os.Stdin
	}
	ctx, stop := signal.NotifyContext(p.ctx, os.Interrupt, unix.SIGTERM)
	defer stop()
	p.ctx = ctx
	node, err := remote.Open(n)
	if err != nil {
		return &commandline.UsageError{Text: err.Error()}
	}
	defer node.Close()
	return do(node)
}
