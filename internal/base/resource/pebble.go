package resource

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// PebbleLayer is the layer file of one service with one HTTP check, for
// Pebble's layers directory.
type PebbleLayer struct {
	Dir     string // $PEBBLE/layers
	Service string // also names the file: 001-<service>.yaml
	Summary string
	Command []string
	User    string // "" is Pebble's own user
	Group   string
	Check   string // name of the check
	URL     string // http URL that answers 2xx while the service is well

	// Job names what Pebble itself, as root, runs every JobPeriod beside the service;
	// "" for nothing. It is a check that nothing acts on: pebble checks shows
	// whether it works.
	Job        string
	JobCommand []string

	// Helper names a service that runs beside the first as Pebble's own user,
	// root; "" for none. It has no check, and has to watch itself.
	Helper        string
	HelperCommand []string
}

// layerName is what Pebble's daemon takes after "001-"; it does not start at
// all where a file in the layers directory is called otherwise.
var layerName = regexp.MustCompile(`^[a-z](-?[a-z0-9]){2,}$`)

// The times of a service. A check acts only at the moment when its threshold
// is crossed. That moment is lost while the service waits to be restarted, and
// no other comes before the check has succeeded: so the wait stays far below
// the time that the check needs to fail, and the programs watch themselves too,
// sooner than the third check. A scrape in progress has the kill delay to end.
const (
	pebbleBackoff      = 500 * time.Millisecond
	pebbleBackoffLimit = 5 * time.Second
	pebbleKillDelay    = 5 * time.Second
	pebbleCheckPeriod  = 10 * time.Second
	pebbleCheckTimeout = 3 * time.Second
	pebbleThreshold    = 3
)

// The times of a job: it begins every JobPeriod, and is ended after JobTimeout, which can't
// be longer. The period is more than the 5 s after which an idle GPU falls asleep, so that
// one that the job has looked at still can.
const (
	JobPeriod  = 6 * time.Second
	JobTimeout = 5 * time.Second
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
	Exec      *layerExec `yaml:"exec,omitempty"`
}

type layerHTTP struct {
	URL string `yaml:"url"`
}

type layerExec struct {
	Command string `yaml:"command"`
}

// File is the layer as the file that Pebble reads when it starts. The service
// is restarted however it ends, and when its check fails.
func (l PebbleLayer) File() (File, error) {
	if !layerName.MatchString(l.Service) {
		return File{}, fmt.Errorf("cannot make Pebble layer %q: want a name of three or more lower-case letters, digits and single dashes", l.Service)
	}
	if len(l.Command) == 0 {
		return File{}, fmt.Errorf("cannot make Pebble layer %s: it has no command", l.Service)
	}
	if slices.Contains(l.Command, "[") || slices.Contains(l.Command, "]") {
		return File{}, fmt.Errorf("cannot make Pebble layer %s: [ and ] as words of a command mark its optional part", l.Service)
	}
	checks := map[string]layerCheck{l.Check: {Override: "replace", Level: "alive", Period: pebbleCheckPeriod.String(),
		Timeout: pebbleCheckTimeout.String(), Threshold: pebbleThreshold, HTTP: &layerHTTP{l.URL}}}
	if l.Job != "" {
		checks[l.Job] = layerCheck{Override: "replace", Period: JobPeriod.String(), Timeout: JobTimeout.String(),
			Threshold: pebbleThreshold, Exec: &layerExec{shellWords(l.JobCommand)}}
	}
	service := layerService{Override: "replace", Summary: l.Summary, Command: shellWords(l.Command), Startup: "enabled",
		User: l.User, Group: l.Group, OnSuccess: "restart", OnFailure: "restart",
		OnCheckFailure: map[string]string{l.Check: "restart"}, BackoffDelay: pebbleBackoff.String(),
		BackoffLimit: pebbleBackoffLimit.String(), KillDelay: pebbleKillDelay.String()}
	services := map[string]layerService{l.Service: service}
	if l.Helper != "" {
		service.Summary, service.Command, service.OnCheckFailure = "helper of "+l.Service, shellWords(l.HelperCommand), nil
		service.User, service.Group = "", ""
		services[l.Helper] = service
	}
	data, err := yaml.Marshal(layerFile{Summary: l.Summary, Services: services, Checks: checks})
	if err != nil {
		return File{}, fmt.Errorf("cannot make Pebble layer %s: %w", l.Service, err)
	}
	return File{Path: l.Dir + "/001-" + l.Service + ".yaml", Data: data, Mode: 0o644}, nil
}

// shellWords quotes a command as Pebble splits it, by the rules of a shell.
func shellWords(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = a
		if a == "" || strings.ContainsFunc(a, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,+@%", r))
		}) {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
