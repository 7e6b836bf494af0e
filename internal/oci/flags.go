package oci

// A flagSet says for each of a command's flags whether it takes a value. Names
// are those of runc 1.1.5 and 1.4.0 (main.go, create.go, run.go, exec.go), with
// the aliases: runc reads -bundle as --bundle.
type flagSet map[string]bool

const (
	noValue   = false
	withValue = true
)

func globalFlags() flagSet {
	return flagSet{
		"debug": noValue, "log": withValue, "log-format": withValue, "root": withValue,
		"criu": withValue, "systemd-cgroup": noValue, "rootless": withValue,
		"help": noValue, "h": noValue, "version": noValue, "v": noValue,
	}
}

func createFlags() flagSet {
	return flagSet{
		"bundle": withValue, "b": withValue, "console-socket": withValue, "pidfd-socket": withValue,
		"pid-file": withValue, "no-pivot": noValue, "no-new-keyring": noValue, "preserve-fds": withValue,
		"help": noValue, "h": noValue,
	}
}

func runFlags() flagSet {
	f := createFlags()
	f["detach"], f["d"], f["keep"], f["no-subreaper"] = noValue, noValue, noValue, noValue
	return f
}

func execFlags() flagSet {
	return flagSet{
		"console-socket": withValue, "pidfd-socket": withValue, "cwd": withValue,
		"env": withValue, "e": withValue, "tty": noValue, "t": noValue,
		"user": withValue, "u": withValue, "additional-gids": withValue, "g": withValue,
		"process": withValue, "p": withValue, "detach": noValue, "d": noValue,
		"pid-file": withValue, "process-label": withValue, "apparmor": withValue,
		"no-new-privs": noValue, "cap": withValue, "c": withValue, "preserve-fds": withValue,
		"cgroup": withValue, "ignore-paused": noValue, "help": noValue, "h": noValue,
	}
}
