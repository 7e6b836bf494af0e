package model

import (
	"concourse-ci-machine/internal/charm/config"
)

// Role names the role of a unit: web or worker, never both (D22).
type Role string

// The roles.
const (
	WebRole    Role = "web"
	WorkerRole Role = "worker"
)

// roleOf decides the role in every hook. With mode=auto the leader is the web and all others
// are workers. An invalid mode has no role.
func roleOf(mode config.Mode, leader bool) Role {
	switch {
	case mode == config.ModeWeb, mode == config.ModeAuto && leader:
		return WebRole
	case mode == config.ModeWorker, mode == config.ModeAuto:
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

// keepMode saves the mode of the previous hook if the option is invalid now.
func (f *Facts) keepMode(last Facts) {
	if !modeOf(f.Config).Valid() {
		f.KeptMode = last.Mode()
	}
}

func modeOf(raw map[string]any) config.Mode {
	if mode, ok := raw["mode"].(string); ok {
		return config.Mode(mode)
	}
	return config.ModeAuto
}
