package cmdline

// A flagSet reports whether a command has the flag, and whether the flag takes a value.
// Names are those of runc 1.1.5 and 1.4.0 (main.go, create.go, run.go, exec.go) with their
// aliases: runc reads -bundle as --bundle. It is code and not a map, which every call of
// runc would fill before main.
type flagSet func(name string) (takes, known bool)

func globalFlags(name string) (takes, known bool) {
	switch name {
	// the last two are crun's
	case "log", "log-format", "root", "criu", "rootless", "log-level", "cgroup-manager":
		return true, true
	case "debug", "systemd-cgroup", "help", "h", "version", "v":
		return false, true
	}
	return false, false
}

func createFlags(name string) (takes, known bool) {
	switch name {
	case "bundle", "b", "console-socket", "pidfd-socket", "pid-file", "preserve-fds":
		return true, true
	case "no-pivot", "no-new-keyring", "help", "h":
		return false, true
	}
	return false, false
}

func runFlags(name string) (takes, known bool) {
	switch name {
	case "detach", "d", "keep", "no-subreaper":
		return false, true
	}
	return createFlags(name)
}

func execFlags(name string) (takes, known bool) {
	switch name {
	case "console-socket", "pidfd-socket", "cwd", "env", "e", "user", "u", "additional-gids", "g",
		"process", "p", "pid-file", "process-label", "apparmor", "cap", "c", "preserve-fds", "cgroup":
		return true, true
	case "tty", "t", "detach", "d", "no-new-privs", "ignore-paused", "help", "h":
		return false, true
	}
	return false, false
}

// foundFlags lists the flags of a call in order.
type foundFlags []foundFlag

type foundFlag struct {
	name string
	Word
}

// get returns the last flag of a name.
func (f foundFlags) get(name string) (w Word, there bool) {
	for i := len(f) - 1; i >= 0; i-- {
		if f[i].name == name {
			return f[i].Word, true
		}
	}
	return Word{}, false
}

func (f foundFlags) value(name string) string {
	w, _ := f.get(name)
	return w.Value
}
