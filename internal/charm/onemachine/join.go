package onemachine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/charm/command/remote"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/relation"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
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
	cfg, _ := config.Parse(facts.Config, facts.Secrets)
	key, err := role.ReadOptional(m.Model.Host.Root, concourse.HomeWebFiles().TSAHostKeyPublic())
	if err != nil {
		return "", err
	}
	if !facts.Role.Web() || key == "" || facts.Web == nil || facts.Web.Address == "" {
		return "", errors.New("cannot invite a worker: this machine has no running web; see: concourse-ci-machine status")
	}
	return strings.Join([]string{
		"http://" + net.JoinHostPort(facts.Web.Address, strconv.Itoa(cfg.Web.Port)),
		net.JoinHostPort(facts.Web.Address, strconv.Itoa(wellknown.TSAPort)),
		strings.Join(strings.Fields(key)[:2], " ")}, " "), nil
}

// join makes this machine a worker of the web that made the invitation.
func (m *Machine) join(invitation string) error {
	if m.Model.Installed() && m.Model.state.Web == nil {
		return errors.New("cannot join: this machine has a web; remove it first: sudo concourse-ci-machine purge")
	}
	url, rest, _ := strings.Cut(strings.TrimSpace(invitation), " ")
	address, key, ok := strings.Cut(rest, " ")
	bag := map[string]string{tsaHost: address, tsaKey: key}
	if _, problems := concourse.ParseTSA(bag); !ok || len(problems) > 0 || !strings.HasPrefix(url, "http") {
		return wrongLine("join", invitation, "sudo concourse-ci-machine invite", problems)
	}
	bag[webURL] = url
	m.Model.state.Web = bag
	return nil
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
	if parsed == "" || name == "" || len(problems) > 0 || !unitForm.MatchString(unit) {
		return "", nil, wrongLine("accept", line, "sudo concourse-ci-machine up --join", problems)
	}
	return unit, map[string]string{workerKey: parsed, workerName: name}, nil
}

// unitForm matches the names that unitName returns.
var unitForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}/0$`)

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

// followWeb reads the version of the joined web, because a worker must have the same. A web
// that does not answer keeps the known version.
func (m *Machine) followWeb(ctx context.Context) {
	if m.Model.state.Web == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Model.state.Web[webURL]+"/api/v1/info", nil)
	if err != nil {
		return
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	var info struct{ Version string }
	if json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&info) == nil && release.CheckVersion(info.Version) == nil {
		m.Model.state.Web[tsaVersion] = info.Version
	}
}
