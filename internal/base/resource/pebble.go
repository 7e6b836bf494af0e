package resource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/canonical/pebble/client"
	"golang.org/x/sys/unix"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

// PebbleLayer describes the layer file of one service with one HTTP check, for Pebble's
// layers directory.
type PebbleLayer struct {
	Path    string // in $PEBBLE/layers, with a number that no other file there has
	Service string
	Summary string
	Command []string
	User    string // "" for Pebble's own user
	Group   string
	Check   string // name of the check
	URL     string // http URL that answers 2xx while the service is healthy

	// Helper is the name of a second service, run as Pebble's own user, root, or "". It has
	// no check and must watch itself.
	Helper        string
	HelperCommand []string
}

// layerName matches the names that Pebble's daemon accepts after the number. With another
// name in the layers directory it does not start at all.
var layerName = lazyregexp.New(`^[a-z](-?[a-z0-9]){2,}$`)

// Times of a service. A check acts only when its threshold is crossed. That moment is lost
// while the service waits for its restart, and the next one comes only after the check has
// succeeded. So the wait is far shorter than the time that the check needs to fail. The
// programs also watch themselves and react before the third check. A running scrape may
// take the kill delay.
const (
	pebbleBackoff      = 500 * time.Millisecond
	pebbleBackoffLimit = 5 * time.Second
	pebbleKillDelay    = 5 * time.Second
	pebbleCheckPeriod  = 10 * time.Second
	pebbleCheckTimeout = 3 * time.Second
	pebbleThreshold    = 3
)

type layerFile struct {
	Summary  string                  `yaml:"summary"`
	Services map[string]layerService `yaml:"services"`
	Checks   map[string]layerCheck   `yaml:"checks"`
}

type layerService struct {
	Override       string            `yaml:"override"`
	Summary        string            `yaml:"summary,omitempty"`
	Command        string            `yaml:"command"`
	Startup        string            `yaml:"startup"`
	User           string            `yaml:"user,omitempty"`
	Group          string            `yaml:"group,omitempty"`
	OnSuccess      string            `yaml:"on-success"`
	OnFailure      string            `yaml:"on-failure"`
	OnCheckFailure map[string]string `yaml:"on-check-failure,omitempty"`
	BackoffDelay   string            `yaml:"backoff-delay"`
	BackoffLimit   string            `yaml:"backoff-limit"`
	KillDelay      string            `yaml:"kill-delay"`
}

type layerCheck struct {
	Override  string     `yaml:"override"`
	Level     string     `yaml:"level,omitempty"`
	Period    string     `yaml:"period"`
	Timeout   string     `yaml:"timeout"`
	Threshold int        `yaml:"threshold"`
	HTTP      *layerHTTP `yaml:"http,omitempty"`
}

type layerHTTP struct {
	URL string `yaml:"url"`
}

// File returns the layer as the file that Pebble reads when it starts. The service is
// restarted after any end and after a failed check.
func (l PebbleLayer) File() (File, error) {
	if !layerName().MatchString(l.Service) {
		return File{}, fmt.Errorf("cannot make Pebble layer %q: want a name of three or more lower-case letters, "+
			"digits and single dashes", l.Service)
	}
	if len(l.Command) == 0 {
		return File{}, fmt.Errorf("cannot make Pebble layer %s: it has no command", l.Service)
	}
	if slices.Contains(l.Command, "[") || slices.Contains(l.Command, "]") {
		return File{}, fmt.Errorf("cannot make Pebble layer %s: [ and ] as words of a command mark its optional "+
			"part", l.Service)
	}
	checks := map[string]layerCheck{l.Check: {Override: "replace", Level: "alive", Period: pebbleCheckPeriod.String(),
		Timeout: pebbleCheckTimeout.String(), Threshold: pebbleThreshold, HTTP: &layerHTTP{l.URL}}}
	service := layerService{Override: "replace", Summary: l.Summary, Command: shellWords(l.Command), Startup: "enabled",
		User: l.User, Group: l.Group, OnSuccess: "restart", OnFailure: "restart",
		OnCheckFailure: map[string]string{l.Check: "restart"}, BackoffDelay: pebbleBackoff.String(),
		BackoffLimit: pebbleBackoffLimit.String(), KillDelay: pebbleKillDelay.String()}
	services := map[string]layerService{l.Service: service}
	if l.Helper != "" {
		service.Summary, service.Command, service.OnCheckFailure = "helper of "+
			""+l.Service, shellWords(l.HelperCommand), nil
		service.User, service.Group = "", ""
		services[l.Helper] = service
	}
	data, err := yaml.Marshal(layerFile{Summary: l.Summary, Services: services, Checks: checks})
	if err != nil {
		return File{}, fmt.Errorf("cannot make Pebble layer %s: %w", l.Service, err)
	}
	return File{Path: l.Path, Data: data, Mode: 0o644}, nil
}

// shellWords quotes a command as Pebble splits it, with the rules of a shell.
func shellWords(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = a
		if a == "" || strings.ContainsFunc(a, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
				strings.ContainsRune("-_./=:,+@%", r))
		}) {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// PebbleState has the states that a Pebble daemon reports for its services and checks, by
// name.
type PebbleState struct {
	Services map[string]string // active, backoff, error, inactive
	Checks   map[string]string // up, down, inactive
}

// errNoPebble reports that no daemon listens on the socket.
var errNoPebble = errors.New("Pebble is not running")

// pebbleDeadline bounds both requests together.
const pebbleDeadline = 5 * time.Second

// PebbleServices queries the daemon behind the socket, a path of the machine. The error is
// errNoPebble if the socket is missing or no daemon listens on it.
func PebbleServices(ctx context.Context, r host.Root, socket string) (PebbleState, error) {
	// The client itself would try for 5 s before it reports a missing socket, or a socket
	// of a killed daemon.
	st, err := r.Lstat(socket)
	if errors.Is(err, fs.ErrNotExist) {
		return PebbleState{}, fmt.Errorf("%w: %s is missing", errNoPebble, socket)
	}
	if err != nil {
		return PebbleState{}, fmt.Errorf("cannot ask Pebble: %w", err)
	}
	if st.Mode()&fs.ModeSocket == 0 {
		return PebbleState{}, fmt.Errorf("%w: %s is not a socket", errNoPebble, socket)
	}
	ctx, cancel := context.WithTimeout(ctx, pebbleDeadline)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", r.Path(socket))
	if errors.Is(err, unix.ECONNREFUSED) {
		return PebbleState{}, fmt.Errorf("%w: no process listens on %s", errNoPebble, socket)
	}
	if err != nil {
		return PebbleState{}, fmt.Errorf("cannot ask Pebble: %w", err)
	}
	conn.Close()
	c, err := client.New(&client.Config{Socket: r.Path(socket), DisableKeepAlive: true})
	if err != nil {
		return PebbleState{}, fmt.Errorf("cannot ask Pebble: %w", err)
	}
	var services []client.ServiceInfo
	var checks []client.CheckInfo
	if err := pebbleGet(ctx, c, "/v1/services", &services); err != nil {
		return PebbleState{}, err
	}
	if err := pebbleGet(ctx, c, "/v1/checks", &checks); err != nil {
		return PebbleState{}, err
	}
	s := PebbleState{Services: map[string]string{}, Checks: map[string]string{}}
	for _, v := range services {
		s.Services[v.Name] = string(v.Current)
	}
	for _, v := range checks {
		s.Checks[v.Name] = string(v.Status)
	}
	return s, nil
}

// pebbleGet sends the client's request with a deadline, which its methods Services and
// Checks do not accept.
func pebbleGet(ctx context.Context, c *client.Client, path string, into any) error {
	resp, err := c.Requester().Do(ctx, &client.RequestOptions{Type: client.SyncRequest, Method: "GET", Path: path})
	if err != nil {
		return fmt.Errorf("cannot ask Pebble for %s: %w", path, err)
	}
	if err := resp.DecodeResult(into); err != nil {
		return fmt.Errorf("cannot ask Pebble for %s: %w", path, err)
	}
	return nil
}
