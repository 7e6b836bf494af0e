package model

import "github.com/fourdollars/concourse-ci-machine/internal/charm/config"

// Role names the role of a unit. Units of the modes auto, web and worker have one role (D22).
type Role string

// The roles.
const (
	WebRole    Role = "web"
	WorkerRole Role = "worker"
	AllRole    Role = "all" // web and worker on one unit
)

// Web reports whether the unit runs a web.
func (r Role) Web() bool { return r == WebRole || r == AllRole }

// Worker reports whether the unit runs a worker.
func (r Role) Worker() bool { return r == WorkerRole || r == AllRole }

// roleOf decides the role in every hook. With mode=auto the leader is the web and all others
// are workers. With mode=all the leader is a worker, too. An invalid mode has no role.
func roleOf(mode config.Mode, leader bool) Role {
	switch {
	case mode == config.ModeWeb, mode == config.ModeAuto && leader:
		return WebRole
	case mode == config.ModeAll && leader:
		return AllRole
	case mode == config.ModeWorker, mode == config.ModeAuto, mode == config.ModeAll:
		return WorkerRole
	}
	return ""
}

// Mode returns the option mode without a check, because the Facts to read depend on it.
// While the option is invalid, the unit keeps its previous mode.
func (f Facts) Mode() config.Mode {
	mode := modeOf(f.Config)
	if !mode.Valid() {
		return f.KeptMode
	}
	return mode
}

// Options returns the options with their problems, as of the last observation.
func (f Facts) Options() (config.Config, []config.Problem) {
	secrets := f.Secrets
	switch {
	case f.Commands().WithoutJuju():
		secrets = nil
	case secrets == nil:
		secrets = config.Secrets{}
	}
	return config.Parse(f.Config, secrets)
}

// keepMode saves the mode of the previous hook if the option is invalid now.
func (f *Facts) keepMode(last Facts) {
	if !modeOf(f.Config).Valid() {
		f.KeptMode = last.Mode()
	}
}

// LeaderIsWeb reports whether the leader of the application is its web, and the other units
// are its workers.
func (f Facts) LeaderIsWeb() bool { return f.Mode() == config.ModeAuto || f.Mode() == config.ModeAll }

func modeOf(raw map[string]any) config.Mode {
	if mode, ok := raw["mode"].(string); ok {
		return config.Mode(mode)
	}
	return config.ModeAuto
}
