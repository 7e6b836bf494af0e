// Package demo plays `make demo`. As root with a Concourse release it sets up a whole CI on a
// throwaway machine, runs builds on two stand-in GPUs, and keeps the CI until Ctrl-C.
// Otherwise it plays the built charm on a separate machine, hook by hook, then its metrics
// and a task container, and serves the status page. It names every stand-in, and gives the
// reason for each part that can't run here. It never changes this machine.
package demo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
	"github.com/fourdollars/concourse-ci-machine/tools/charmpack"
)

// noServer is the demo's source of apt packages: the demo uses no network, and no server
// listens there.
const noServer = "http://127.0.0.1:9"

// hosts is the folder of the fixture hosts, in the project's folder.
const hosts = "internal/testutil/hosttest/hosts"

type demo struct {
	story
	bin       string
	verbose   bool
	hooksOnly bool
	options   options  // of the CI, in addition to the demo's
	dir       string   // the unpacked charm and the release
	folders   []string // further folders of the demo
	kept      string   // folder of the downloads for the next run, or ""
	world     *sandbox.World
	worlds    []*sandbox.World
	pebble    *pebble
}

func (d *demo) close() error {
	var err error
	if d.pebble != nil {
		err = d.pebble.stop()
	}
	for _, w := range d.worlds {
		err = errors.Join(err, w.Close())
	}
	for _, dir := range append(d.folders, d.dir) {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// hooksDemo plays the hooks of a unit. why is the reason why this machine runs no CI.
func (d *demo) hooksDemo(why string) (err error) {
	if d.dir, err = os.MkdirTemp("", "cci-charm-"); err != nil {
		return err
	}
	if err := os.Chmod(d.dir, 0o755); err != nil {
		return err
	}
	if err := d.unpackCharm(); err != nil {
		return err
	}
	if d.world, err = d.unit("amd-nvidia"); err != nil {
		return err
	}
	d.intro(why)
	return d.play([]scene{
		{"a worker", d.hooks},
		{"the same hook again", d.secondHook},
		{"GPU metrics", d.metrics},
		{"the wrong vendor", d.wrongVendor},
		{"a task", d.task},
	})
}

// intro distinguishes the demo from a real CI, then introduces the unit and the stand-ins.
func (d *demo) intro(why string) {
	d.screen.prose("This demo runs the hooks of one Juju unit in a throwaway folder, with stand-in GPUs. " +
		"It runs no real Concourse and uses no real GPU.")
	d.screen.item("no CI", "the demo of a whole CI %s", why)
	d.screen.item("real CI", "on this machine: sudo concourse-ci-machine up (docs/tutorial/own-machine.md)")
	d.screen.line("")
	d.screen.prose(fmt.Sprintf("The unit is in an LXD container of a host with an AMD and an NVIDIA GPU. The AMD "+
		"GPU is passed through. The unit's files are below %s, copied from a fixture. dispatch is the built program.",
		d.world.Root))
	d.screen.prose("Stand-ins are marked. Juju is a model in memory behind hook tools that are real commands. " +
		"systemctl, journalctl and apt-get are recorded, not run. Concourse's release only reports its version.")
}

// unpackCharm makes the folders of the charm and of a stand-in release.
func (d *demo) unpackCharm() error {
	if err := d.unpackTree(); err != nil {
		return err
	}
	return sandbox.StandInRelease(filepath.Join(d.dir, "concourse.tgz"), "8.2.5")
}

// unpackTree makes the folder of the charm.
func (d *demo) unpackTree() error {
	var out strings.Builder
	if charmpack.Run([]string{"tree", "-bin", d.bin, "-version", "demo", "-o", d.charm()}, &out, &out) != 0 {
		return fmt.Errorf("cannot unpack the charm: %s", strings.TrimSpace(out.String()))
	}
	return nil
}

func (d *demo) charm() string { return filepath.Join(d.dir, "charm") }

func (d *demo) unit(host string) (*sandbox.World, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w, err := sandbox.New(sandbox.Options{Host: filepath.Join(hosts, host), Charm: d.charm(), Exe: exe,
		Unit: "concourse-ci-machine/0"})
	if err != nil {
		return nil, err
	}
	d.worlds = append(d.worlds, w)
	// A terminal's Ctrl-C is for the demo, which lets a hook finish.
	w.Start = func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL} }
	w.Model.Resources = map[string]string{"concourse-release": filepath.Join(d.dir, "concourse.tgz")}
	for name, value := range map[string]any{
		"mode":          "worker",
		"rocm-base-url": noServer,
	} {
		if err := w.Model.SetConfig(name, value); err != nil {
			return nil, err
		}
	}
	return w, nil
}
