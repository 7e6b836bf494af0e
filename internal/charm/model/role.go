package model

// Role names the role of a unit: web or worker, never both (D22).
type Role string

// The roles.
const (
	WebRole    Role = "web"
	WorkerRole Role = "worker"
)

// roleOf decides the role in every hook. With mode=auto the leader is the web and all others
// are workers. An invalid mode has no role.
func roleOf(mode string, leader bool) Role {
	switch {
	case mode == "web", mode == "auto" && leader:
		return WebRole
	case mode == "worker", mode == "auto":
		return WorkerRole
	}
	return ""
}

// Mode returns the option mode without a check, because the Facts to read depend on it.
// While the option is invalid, the unit keeps its previous mode.
func (f Facts) Mode() string {
	mode := modeOf(f.Config)
	if !validMode(mode) {
		return f.KeptMode
	}
	return mode
}

// keepMode saves the mode of the previous hook if the option is invalid now.
func (f *Facts) keepMode(last Facts) {
	if !validMode(modeOf(f.Config)) {
		f.KeptMode = last.Mode()
	}
}

// validMode reports whether units with this mode have a role.
func validMode(mode string) bool { return mode == "auto" || mode == "web" || mode == "worker" }

func modeOf(raw map[string]any) string {
	if mode, ok := raw["mode"].(string); ok {
		return mode
	}
	return "auto"
}
