package model

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
func roleOf(mode string, leader bool) Role {
	switch {
	case mode == "web", mode == "auto" && leader:
		return WebRole
	case mode == "all" && leader:
		return AllRole
	case mode == "worker", mode == "auto", mode == "all":
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
func validMode(mode string) bool {
	return mode == "auto" || mode == "all" || mode == "web" || mode == "worker"
}

// LeaderIsWeb reports whether the leader of the application is its web, and the other units
// are its workers.
func (f Facts) LeaderIsWeb() bool { return f.Mode() == "auto" || f.Mode() == "all" }

func modeOf(raw map[string]any) string {
	if mode, ok := raw["mode"].(string); ok {
		return mode
	}
	return "auto"
}
