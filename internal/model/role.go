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

// ModeOf is the option before it was checked: what Juju is asked depends on it.
func ModeOf(raw map[string]any) string {
	if mode, ok := raw["mode"].(string); ok {
		return mode
	}
	return "auto"
}
