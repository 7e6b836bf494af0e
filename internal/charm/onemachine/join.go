package onemachine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/wellknown"
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
	workerKey                   = "worker-public-key"
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
	key, err := role.ReadOptional(m.Model.Host.Root, concourse.WebFiles(false).TSAHostKeyPublic())
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

// Join makes this machine a worker of the web that made the invitation.
func (m *Machine) Join(invitation string) error {
	if m.Model.Installed() && m.Model.state.Web == nil {
		return errors.New("cannot join: this machine has a web; remove it first: sudo concourse-ci-machine purge")
	}
	url, rest, _ := strings.Cut(strings.TrimSpace(invitation), " ")
	address, key, ok := strings.Cut(rest, " ")
	bag := map[string]string{tsaHost: address, tsaKey: key}
	if _, problems := concourse.ParseTSA(bag); !ok || len(problems) > 0 || !strings.HasPrefix(url, "http") {
		return fmt.Errorf("cannot join with %.80q: copy the whole line that `sudo concourse-ci-machine invite` prints "+
			"on the web's machine %s", invitation, strings.Join(problems, ", "))
	}
	bag[webURL] = url
	m.Model.state.Web = bag
	return nil
}

// PrintKey prints the command that lets this machine's worker register.
func (m *Machine) PrintKey() error {
	key, err := role.ReadOptional(m.Model.Host.Root, concourse.WorkerKeyPublic)
	if err != nil || key == "" {
		return fmt.Errorf("cannot show the key of this machine's worker: it has none yet (%v)", err)
	}
	fmt.Fprintf(m.Stdout, "On the web's machine run:\n\n  sudo concourse-ci-machine accept '%s %s'\n",
		m.Model.state.Unit, strings.Join(strings.Fields(key)[:2], " "))
	return nil
}

// Accept lets the worker of another machine register. worker is the line of PrintKey.
func (m *Machine) Accept(ctx context.Context, worker string) error {
	return m.locked("accept the worker", func() error {
		if !m.Model.Installed() {
			return errNotUp
		}
		name, key, _ := strings.Cut(strings.TrimSpace(worker), " ")
		parsed, _, problems := relation.ParseWorker(map[string]string{workerKey: key})
		if parsed == "" || len(problems) > 0 || !strings.HasSuffix(name, "/0") || name == m.Model.state.Unit {
			return fmt.Errorf("cannot accept %.80q: copy the whole line that up --join printed on the worker's "+
				"machine; %s", worker, strings.Join(problems, ", "))
		}
		if m.Model.state.Workers == nil {
			m.Model.state.Workers = map[string]map[string]string{}
		}
		m.Model.state.Workers[name] = map[string]string{workerKey: parsed}
		if err := m.Model.Save(); err != nil {
			return err
		}
		return m.run(ctx, "config-changed")
	})
}

// Dismiss ends the registration of another machine's worker.
func (m *Machine) Dismiss(ctx context.Context, name string) error {
	return m.locked("dismiss the worker", func() error {
		if _, ok := m.Model.state.Workers[name]; !ok {
			var known []string
			for k := range m.Model.state.Workers {
				known = append(known, k)
			}
			return fmt.Errorf("cannot dismiss %q: no such worker; the joined machines are: %s", name,
				strings.Join(known, ", "))
		}
		delete(m.Model.state.Workers, name)
		if err := m.Model.Save(); err != nil {
			return err
		}
		return m.run(ctx, "config-changed")
	})
}

// AddWorker joins another machine through the user's own ssh, which checks its host key.
func (m *Machine) AddWorker(ctx context.Context, address string) error {
	if address == "" || strings.HasPrefix(address, "-") {
		return fmt.Errorf("cannot add a worker: %q is not [user@]host", address)
	}
	line, err := m.invitation()
	if err != nil {
		return err
	}
	ssh := func(out *bytes.Buffer, command string) error {
		to := m.Stdout
		if out != nil {
			to = out
		}
		return host.Attached(ctx, []string{"ssh", "--", address, command}, os.Stdin, to, m.Stdout)
	}
	if err := ssh(nil, "sudo concourse-ci-machine up --join '"+line+"'"); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := ssh(&out, "sudo concourse-ci-machine worker-key"); err != nil {
		return err
	}
	return m.Accept(ctx, out.String())
}

// WorkerKey prints the name and the key of this machine's worker, for AddWorker.
func (m *Machine) WorkerKey() error {
	key, err := role.ReadOptional(m.Model.Host.Root, concourse.WorkerKeyPublic)
	if err != nil || key == "" {
		return fmt.Errorf("cannot show the key of this machine's worker: it has none yet (%v)", err)
	}
	_, err = fmt.Fprintln(m.Stdout, m.Model.state.Unit, strings.Join(strings.Fields(key)[:2], " "))
	return err
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
	if json.NewDecoder(resp.Body).Decode(&info) == nil && release.CheckVersion(info.Version) == nil {
		m.Model.state.Web[tsaVersion] = info.Version
	}
}
