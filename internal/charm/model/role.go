package model

// Role is what a unit does: it is the web, or a worker, never both (D22).
type Role string

// The roles.
const (
	WebRole    Role = "web"
	WorkerRole Role = "worker"
)

// roleOf decides: with mode=auto the leader is the web and everyone else a
// worker, anew in every hook. A mode that the options refuse is nobody's role.
func roleOf(mode string, leader bool) Role {
	switch {
	case mode == "web", mode == "auto" && leader:
		return WebRole
	case mode == "worker", mode == "auto":
		return WorkerRole
	}
	return ""
}

// Mode returns the option mode before it was checked, because what Juju is asked depends
// on it. As long as the option has a wrong value, the unit keeps its previous mode.
func (f Facts) Mode() string {
	mode := modeOf(f.Config)
	if roleOf(mode, true) == "" {
		return f.KeptMode
	}
	return mode
}

// keepMode notes the mode of the previous hook if the option has a wrong value now.
func (f *Facts) keepMode(last Facts) {
	if mode := last.Mode(); roleOf(modeOf(f.Config), true) == "" {
		f.KeptMode = mode
	}
}

func modeOf(raw map[string]any) string {
	if mode, ok := raw["mode"].(string); ok {
		return mode
	}
	return "auto"
}
