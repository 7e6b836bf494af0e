package onemachine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/remote"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// Keys of the joined web's databag. The URL is only used to follow the web's version.
const (
	tsaHost, tsaKey, tsaVersion = "tsa-host", "tsa-public-key", "concourse-version"
	webURL                      = "url"
	workerKey, workerName       = "worker-public-key", "worker-name"
)

// Invite prints the command that makes another machine a worker of this web.
func (m *Machine) Invite(context.Context) error {
	line, err := m.invitation()
	if err != nil {
		return err
	}
	fmt.Fprintf(m.Stdout, "On the other machine run:\n\n  sudo concourse-ci-machine up --join '%s'\n", line)
	return nil
}

func (m *Machine) invitation() (string, error) {
	if !m.Model.Installed() {
		return "", errNotUp
	}
	facts, err := model.Load(m.Model.Host.Root)
	if err != nil {
		return "", err
	}
	cfg, _ := facts.Options()
	key, err := role.ReadOptional(m.Model.Host.Root, concourse.HomeWebFiles().TSAHostKeyPublic())
	if err != nil {
		return "", err
	}
	version, _, installed := release.Installed(m.Model.Host.Root)
	if !facts.Role.Web() || key == "" || facts.Web == nil || facts.Web.Address == "" || !installed {
		return "", errors.New("cannot invite a worker: this machine has no running web; " +
			"see: concourse-ci-machine status")
	}
	return strings.Join([]string{
		"http://" + net.JoinHostPort(facts.Web.Address, strconv.Itoa(cfg.Web.Port)),
		net.JoinHostPort(facts.Web.Address, strconv.Itoa(wellknown.TSAPort)), version,
		strings.Join(strings.Fields(key)[:2], " ")}, " "), nil
}

// join makes this machine a worker of the web that made the invitation.
func (m *Machine) join(invitation string) error {
	if m.Model.Installed() && m.Model.state.Web == nil {
		return errors.New("cannot join: this machine has a web; remove it first: sudo concourse-ci-machine purge")
	}
	bag, problems := parseInvitation(invitation)
	if bag == nil {
		return wrongLine("join", invitation, "sudo concourse-ci-machine invite", problems)
	}
	m.Model.state.Web = bag
	return nil
}

// parseInvitation returns the databag of the web that made the invitation, nil for a wrong
// line.
func parseInvitation(line string) (bag map[string]string, problems []string) {
	f := strings.Fields(line)
	if len(f) != 5 {
		return nil, nil
	}
	bag = map[string]string{webURL: f[0], tsaHost: f[1], tsaVersion: f[2], tsaKey: f[3] + " " + f[4]}
	_, problems = concourse.ParseTSA(bag)
	u, err := url.Parse(f[0])
	host, _, _ := net.SplitHostPort(f[1])
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() != host ||
		*u != (url.URL{Scheme: u.Scheme, Host: u.Host}) {
		problems = append(problems, fmt.Sprintf("%.80q is not an address such as http://%s:8080", f[0], host))
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return bag, nil
}

// wrongLine reports a line of another machine that was not copied as it was printed.
func wrongLine(verb, line, printer string, problems []string) error {
	text := fmt.Sprintf("cannot %s %.80q: copy the whole line that this command prints on the other machine: %s", verb,
		line, printer)
	if len(problems) > 0 {
		text += "; " + strings.Join(problems, ", ")
	}
	return errors.New(text)
}

// PrintKey prints the command that lets this machine's worker register.
func (m *Machine) PrintKey() error {
	line, err := m.workerLine()
	if err == nil {
		_, err = fmt.Fprintf(m.Stdout, "On the web's machine run:\n\n  sudo concourse-ci-machine accept '%s'\n", line)
	}
	return err
}

// WorkerKey prints the argument of Accept, for AddWorker.
func (m *Machine) WorkerKey() error {
	line, err := m.workerLine()
	if err == nil {
		_, err = fmt.Fprintln(m.Stdout, line)
	}
	return err
}

// workerLine returns the names of the machine and its worker, and the worker's key.
func (m *Machine) workerLine() (string, error) {
	key, err := role.ReadOptional(m.Model.Host.Root, concourse.WorkerKeyPublic)
	if err != nil {
		return "", err
	}
	env, err := role.ReadOptional(m.Model.Host.Root, concourse.EnvFile)
	if err != nil {
		return "", err
	}
	name := envValue(env, "CONCOURSE_NAME")
	if key == "" || name == "" {
		return "", errors.New("cannot show the key of this machine's worker: it has none yet; see: " +
			"concourse-ci-machine status")
	}
	return m.Model.state.Unit + " " + name + " " + strings.Join(strings.Fields(key)[:2], " "), nil
}

// Accept lets the worker of another machine register. line is that of PrintKey.
func (m *Machine) Accept(ctx context.Context, line string) error {
	return m.locked("accept the worker", func() error {
		if !m.Model.Installed() {
			return errNotUp
		}
		unit, worker, err := parseWorkerLine(line)
		if err != nil {
			return err
		}
		known := m.Model.state.Workers[unit]
		if unit == m.Model.state.Unit || known != nil && known[workerKey] != worker[workerKey] {
			return fmt.Errorf("cannot accept the worker: another machine is called %s, too; give one of them another "+
				"host name before its first up, or run: sudo concourse-ci-machine dismiss %[1]s", unit)
		}
		if m.Model.state.Workers == nil {
			m.Model.state.Workers = map[string]map[string]string{}
		}
		m.Model.state.Workers[unit] = worker
		if err := m.Model.Save(); err != nil {
			return err
		}
		return m.runAll(ctx)
	})
}

// parseWorkerLine returns the unit of a line of workerLine, and the databag of its worker.
func parseWorkerLine(line string) (unit string, worker map[string]string, err error) {
	unit, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	name, key, _ := strings.Cut(rest, " ")
	parsed, _, problems := relation.ParseWorker(map[string]string{workerKey: key, workerName: name})
	if parsed == "" || name == "" || len(problems) > 0 || !unitForm().MatchString(unit) {
		return "", nil, wrongLine("accept", line, "sudo concourse-ci-machine up --join", problems)
	}
	return unit, map[string]string{workerKey: parsed, workerName: name}, nil
}

// unitForm matches the names that unitName returns.
var unitForm = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}/0$`)

// Dismiss ends the registration of another machine's worker.
func (m *Machine) Dismiss(ctx context.Context, name string) error {
	return m.locked("dismiss the worker", func() error {
		if _, ok := m.Model.state.Workers[name]; !ok {
			return fmt.Errorf("cannot dismiss %q: no such machine; the joined ones are: %s", name,
				cmp.Or(strings.Join(slices.Sorted(maps.Keys(m.Model.state.Workers)), ", "), "none"))
		}
		delete(m.Model.state.Workers, name)
		if err := m.Model.Save(); err != nil {
			return err
		}
		return m.runAll(ctx)
	})
}

// AddWorker joins another machine through the user's own ssh.
func (m *Machine) AddWorker(ctx context.Context, n *remote.Node) error {
	line, err := m.invitation()
	if err != nil {
		return err
	}
	facts, err := n.Detect(ctx)
	if err != nil {
		return err
	}
	// One command, so that sudo asks once. Its last line is the key.
	var out bytes.Buffer
	command := `sh -c "concourse-ci-machine up --join '` + line + `' && concourse-ci-machine worker-key"`
	if err := n.AsRoot(ctx, facts, command, io.MultiWriter(m.Stdout, &out)); err != nil {
		return fmt.Errorf("cannot make %s a worker: %w", n.Target, err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return m.Accept(ctx, lines[len(lines)-1])
}

// followWeb reads the version of the joined web, because a worker must have the same. The
// answer comes over plain HTTP, so only a newer release of the same major version is
// accepted that check finds installable, or the version that the operator chose. A web that
// does not answer keeps the known version. It returns the status of a worker that gets no
// work, or "".
func (m *Machine) followWeb(ctx context.Context, check func(context.Context) error) (blocked string) {
	web := m.Model.state.Web
	if web == nil {
		return ""
	}
	version, old := concourse.WebVersion(ctx, web[webURL]), web[tsaVersion]
	chosen, _ := m.Model.options["version"].(string)
	own := cmp.Or(chosen, old)
	if version == "" || version == own {
		web[tsaVersion] = cmp.Or(version, old)
		return ""
	}
	why := ""
	if chosen == "" && release.Succeeds(version, old) {
		web[tsaVersion] = version
		err := check(ctx)
		if err == nil {
			return ""
		}
		web[tsaVersion] = old
		why = ": " + err.Error()
	}
	follow := "sudo concourse-ci-machine upgrade " + version
	m.Model.Progress.Note(fmt.Sprintf("The web has Concourse %s, and this machine stays at %s%s; to change that run: %s",
		version, own, why, follow))
	if release.Fits(version, own) {
		return ""
	}
	return fmt.Sprintf("a web of Concourse %s gives no work to a worker of %s; run: %s", version, own, follow)
}
