package debian

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// Mirror returns this machine's mirror and release, as apt has them.
func Mirror() (uri, suite string, err error) {
	m := readMirror()
	return m.uri, m.suite, m.err
}

// mirror is a result of findMirror.
type mirror struct {
	uri, suite string
	err        error
}

// readMirror calls findMirror once, because apt takes seconds on a slow machine.
var readMirror = sync.OnceValue(func() (m mirror) {
	m.uri, m.suite, m.err = findMirror()
	return m
})

func findMirror() (uri, suite string, err error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(release)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			suite = strings.Trim(v, `"`)
		}
	}
	apt := exec.Command("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)",
		"Created-By: Packages")
	apt.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is for this program
	out, err := apt.Output()
	if err != nil {
		return "", "", fmt.Errorf("cannot find this machine's mirror: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) == 3 && f[1] == suite && f[2] == "main" && strings.HasPrefix(f[0], "http") {
			return f[0], suite, nil
		}
	}
	return "", "", fmt.Errorf("cannot find this machine's mirror of %s: apt-get indextargets has none; "+
		"run apt-get update", suite)
}
