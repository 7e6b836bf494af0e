// Package preflight checks whether a machine fits a worker or a web, and gives a remedy for
// each finding. It changes nothing, and every check runs, whatever the others find.
package preflight

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/machine"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
)

// Level classifies the result of a check.
type Level string

// The levels. A warning is a possible problem, or a check that could not run.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Failure Level = "failure"
)

// Check holds the result of one check of the machine.
type Check struct {
	Name   string `json:"name"`
	Level  Level  `json:"level"`
	Text   string `json:"text"`             // what was found
	Remedy string `json:"remedy,omitempty"` // what to do about it
}

func ok(name, format string, a ...any) Check {
	return Check{Name: name, Level: OK, Text: fmt.Sprintf(format, a...)}
}

func warn(name, remedy, format string, a ...any) Check {
	return Check{name, Warning, fmt.Sprintf(format, a...), remedy}
}

func failure(name, remedy, format string, a ...any) Check {
	return Check{name, Failure, fmt.Sprintf(format, a...), remedy}
}

// preflight holds the input of the checks. Functions provide what is not in files, so that
// tests can replace them.
type preflight struct {
	host.Host
	commands wellknown.Commands
	facts    model.Facts
	cfg      config.Config
	machine  machine.Machine
	hosts    []string // URLs that tasks download from

	free   func(path string) (total, free uint64, err error) // bytes
	synced func() (bool, error)                              // the kernel's clock follows a server
	// rotates reports whether the kernel knows the disk of a folder as one that rotates.
	rotates func(folder string) bool
	reach   func(ctx context.Context, url string, p resource.Proxies) error
}

// newPreflight uses Juju's facts from the last hook, or the defaults before the first hook.
func newPreflight(h host.Host, program wellknown.Program) (*preflight, error) {
	facts, err := model.LoadFor(h.Root, "check")
	if err != nil {
		return nil, err
	}
	facts.Program = program
	cfg, problems := facts.Options()
	if len(problems) > 0 {
		return nil, fmt.Errorf("cannot check until this option is right: %s", problems[0])
	}
	p := &preflight{Host: h, commands: wellknown.Commands{Program: program}, facts: facts, cfg: cfg,
		machine: machine.Observe(h.Root).Under(facts.Juju),
		free: func(path string) (uint64, uint64, error) {
			return diskSpace(h.Path(path))
		}, synced: clockSynced, reach: reach}
	p.rotates = p.rotational
	return p, nil
}

func diskSpace(path string) (total, free uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, err
	}
	return st.Blocks * uint64(st.Bsize), st.Bavail * uint64(st.Bsize), nil
}

// clockSynced reads the kernel's clock status (adjtimex(2)). It changes nothing.
func clockSynced() (bool, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return err == nil && state != unix.TIME_ERROR, err
}

// run runs all checks.
func (p *preflight) run(ctx context.Context) []Check {
	sources := make(chan []Check, 1)
	go func() { sources <- append(p.sources(ctx), p.outbound(ctx)...) }()
	checks := []Check{p.series(), p.kernel(), p.cpu(), p.memory()}
	checks = append(checks, p.disks()...)
	checks = append(checks, p.clock())
	if p.facts.Role != model.WebRole {
		checks = append(checks, p.cgroups(), p.userns(), p.apparmor(), p.runc(ctx), p.folders())
		checks = append(checks, p.gpus()...)
	}
	return append(checks, <-sources...)
}

// Run runs all checks except the hosts of tasks.
func Run(ctx context.Context, h host.Host, program wellknown.Program) ([]Check, error) {
	p, err := newPreflight(h, program)
	if err != nil {
		return nil, err
	}
	return p.run(ctx), nil
}

// Show writes the result of each check, and fails if a check fails. hosts lists the hosts
// of tasks, see hostURLs.
func Show(ctx context.Context, h host.Host, program wellknown.Program, w io.Writer, hosts string, f term.Format) error {
	p, err := newPreflight(h, program)
	if err != nil {
		return err
	}
	if err := p.setHosts(hosts); err != nil {
		return err
	}
	return writePreflight(w, f, p.run(ctx))
}

func writePreflight(w io.Writer, f term.Format, checks []Check) error {
	var failed []string
	var b strings.Builder
	for _, c := range checks {
		colour, mark := term.Green, string(c.Level)
		switch c.Level {
		case Warning:
			colour = term.Yellow
		case Failure:
			colour, mark = term.Red, "FAILURE"
			failed = append(failed, c.Name+": "+c.Text)
		}
		fmt.Fprintf(&b, "%s  %s: %s\n", f.Column(colour, mark, 7), c.Name, c.Text)
		if c.Remedy != "" {
			fmt.Fprintf(&b, "         %s\n", c.Remedy)
		}
	}
	var err error
	if f.JSON {
		err = term.JSON(w, struct {
			OK     bool    `json:"ok"`
			Checks []Check `json:"checks"`
		}{len(failed) == 0, checks})
	} else {
		_, err = io.WriteString(w, b.String())
	}
	if err == nil && len(failed) > 0 {
		err = fmt.Errorf("cannot recommend this machine: %s", strings.Join(failed, "; "))
	}
	return err
}

// reachTimeout bounds one source. All sources are checked in parallel.
const reachTimeout = 10 * time.Second
