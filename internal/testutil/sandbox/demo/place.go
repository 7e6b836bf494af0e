package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// insideEnv has the place for the process in the namespaces.
const insideEnv = "CONCOURSE_DEMO_PLACE"

// place describes the CI's throwaway place to the process in the namespaces.
type place struct {
	Dir    string // has the charm, the release and the machine
	Debian string // tar of the Debian
	Debs   string // tar of the packages
	Groups string // control groups
	Source string // the project's folder
	Log    string
	Web    string // address of the web's listener on this machine
	Page   string // address of the listener of the GPUs' page
	// Options of the CI in addition to the demo's, or instead of them.
	Options options
}

// The files of the process in the namespaces, after the standard ones.
const (
	webFile = 3 + iota
	pageFile
	reportFile
)

// serving is the report that all scenes ended and the CI waits for Ctrl-C.
const serving = "serving"

// ci runs the CI in namespaces, and removes everything at its end.
func (d *demo) ci(c chosen) (err error) {
	d.ciIntro(c.release)
	if d.dir, err = os.MkdirTemp(c.tmp, "cci-demo-"); err != nil {
		return err
	}
	if err := os.Chmod(d.dir, 0o755); err != nil {
		return err
	}
	log, err := os.CreateTemp("", "concourse-ci-machine-demo-*.log")
	if err != nil {
		return err
	}
	defer func() {
		log.Close()
		if err == nil || context.Cause(d.ctx) != nil || errors.Is(err, syscall.EPIPE) {
			err = errors.Join(err, os.Remove(log.Name()))
			return
		}
		err = fmt.Errorf("%w; the log: %s", err, log.Name())
	}()
	p := place{Dir: d.dir, Source: hosttest.Source(), Log: log.Name(), Options: d.options}
	d.screen.title("Preparation")
	if err := d.prepare(&p, c, log); err != nil {
		if cause := context.Cause(d.ctx); cause != nil {
			return cause
		}
		err = brief(err)
		d.screen.mark(failed, "%v", err)
		return err
	}
	web, err := listen(8080)
	if err != nil {
		return err
	}
	defer web.Close()
	page, err := listen(9401)
	if err != nil {
		return err
	}
	defer page.Close()
	p.Web, p.Page = web.Addr().String(), page.Addr().String()
	done := make(chan error)
	go func() {
		// The thread has a separate mount namespace, and its end ends the processes.
		runtime.LockOSThread()
		var remove func() error
		var err error
		if p.Groups, remove, err = guest.MakeGroups(); err == nil {
			err = errors.Join(d.inside(p, web, page), remove())
		}
		done <- err
	}()
	return <-done
}

// brief returns an error with the first and the last lines of a long text. The log has all.
func brief(err error) error {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	if len(lines) < 5 {
		return err
	}
	return errors.New(strings.Join(append(lines[:1], lines[len(lines)-3:]...), " ... "))
}

// ciIntro introduces the CI and its stand-ins.
func (d *demo) ciIntro(release string) {
	d.screen.prose("This demo sets up a whole CI with sudo concourse-ci-machine up, on a throwaway machine with two " +
		"stand-in GPUs. Concourse, PostgreSQL, systemd and apt are real.")
	d.screen.item("release", "%s", release)
	d.screen.line("")
	d.screen.prose("The machine is a Debian in namespaces of this machine, in a temporary folder. Nothing of this " +
		"machine is changed. Ctrl-C ends the demo at any time and removes everything. It takes some minutes. " +
		"The short demo of a Juju unit's hooks: make demo HOOKS=1")
}

// prepare gets the programs, the Debian, its packages and the release.
func (d *demo) prepare(p *place, c chosen, log *os.File) error {
	ctx := func(report func(string)) context.Context {
		return debian.WithReport(d.ctx, func(line string) {
			fmt.Fprintln(log, line)
			report(strings.TrimPrefix(line, "I: "))
		})
	}
	needed := []string{"ip", "mount", "nsenter", "tar"}
	if !debian.Ready() {
		needed = append(needed, "debootstrap", "wget")
	}
	if err := d.getPrograms(needed...); err != nil {
		return err
	}
	var err error
	if d.kept, err = debian.CacheFolder(); err != nil {
		return err
	}
	what := "use the Debian that an earlier run made"
	if !debian.Ready() {
		what = "make a Debian with debootstrap (once; it stays in the cache)"
	}
	if err := d.screen.work(what, func(report func(string)) (err error) {
		if p.Debian, err = debian.Base(ctx(report)); err == nil {
			report("download PostgreSQL")
			p.Debs, err = debian.Repository(ctx(report))
		}
		return err
	}); err != nil {
		return err
	}
	return d.screen.work("copy the release and the charm", func(func(string)) error {
		if err := d.unpackTree(); err != nil {
			return err
		}
		return guest.PackRelease(d.ctx, c.release, filepath.Join(d.dir, releaseFile))
	})
}

// releaseFile is the release in the place's folder.
const releaseFile = "concourse.tgz"

// listen listens on a port of the loopback interface: the preferred one if it is free.
func listen(preferred int) (*net.TCPListener, error) {
	ip := net.IPv4(127, 0, 0, 1)
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: ip, Port: preferred})
	if err != nil {
		l, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: ip})
	}
	return l, err
}

// inside runs the process in the namespaces until it ends or the demo is interrupted. The
// kernel ends everything in them with it.
func (d *demo) inside(p place, listeners ...*net.TCPListener) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), insideEnv+"="+string(text))
	var errs bytes.Buffer
	c.Stdout, c.Stderr = d.screen.out, &errs
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Setpgid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC}
	for _, l := range listeners {
		f, err := l.File()
		if err != nil {
			return err
		}
		defer f.Close()
		c.ExtraFiles = append(c.ExtraFiles, f)
	}
	reports, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reports.Close()
	c.ExtraFiles = append(c.ExtraFiles, w)
	err = c.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("cannot start a process in namespaces: %w", err)
	}
	reported, ended := make(chan string), make(chan error, 1)
	go func() {
		defer close(reported)
		for lines := bufio.NewScanner(reports); lines.Scan(); {
			reported <- lines.Text()
		}
		ended <- c.Wait()
	}()
	failure, waits := "", false
	for {
		select {
		case <-d.ctx.Done():
			c.Process.Kill()
			for range reported {
			}
			<-ended
			if d.screen.terminal {
				d.screen.line("") // after the ^C
			}
			d.screen.item("now", "remove the machine")
			if cause := context.Cause(d.ctx); !waits || cause != (interrupted{syscall.SIGINT}) {
				return cause
			}
			return nil
		case text, ok := <-reported:
			switch {
			case text == serving:
				waits = true
				defer takeTerminal()()
			case ok:
				failure = text
			default:
				if err := <-ended; err != nil {
					return childError(failure, err, errs.String())
				}
				return nil
			}
		}
	}
}

// childError returns the error of the process in the namespaces.
func childError(reported string, err error, wrote string) error {
	if reported == brokenPipe {
		return syscall.EPIPE
	}
	if reported != "" {
		return errors.New(reported)
	}
	return fmt.Errorf("cannot run the CI: %w\n%s", err, wrote)
}
