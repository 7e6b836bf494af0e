//go:build e2e

package concourse

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// manager stands in for systemd as process 1 of a machine: it runs what the
// unit files say and answers systemctl and journalctl.
type manager struct {
	dir string // the World's

	mu       sync.Mutex
	services map[string]*service
	waiting  map[int]chan syscall.WaitStatus // processes that somebody waits for
}

// serve answers one connection after the other: systemd does one job at a time
// for a unit, too.
func (m *manager) serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			var r request
			if json.NewDecoder(conn).Decode(&r) == nil && len(r.Argv) > 1 {
				json.NewEncoder(conn).Encode(m.answer(r.Argv))
			}
		}()
	}
}

func (m *manager) answer(argv []string) answer {
	if argv[0] == "journalctl" {
		return m.journal(argv[1:])
	}
	var names []string
	signal := ""
	for _, a := range argv[2:] {
		if value, ok := strings.CutPrefix(a, "--signal="); ok {
			signal = value
		} else if !strings.HasPrefix(a, "-") {
			if !strings.Contains(a, ".") {
				a += ".service"
			}
			names = append(names, a)
		}
	}
	if argv[1] == "show" {
		var b strings.Builder
		for _, name := range names {
			b.WriteString(m.service(name).show())
		}
		return answer{Stdout: b.String()}
	}
	for _, name := range names {
		if err := m.do(argv[1], m.service(name), signal); err != nil {
			return answer{Stderr: fmt.Sprintf("cannot %s %s: %s\n", argv[1], name, err), Code: 1}
		}
	}
	return answer{}
}

func (m *manager) do(verb string, s *service, signal string) error {
	switch verb {
	case "enable", "disable":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.enabled = verb == "enable"
		return nil
	case "start":
		return s.start()
	case "stop":
		return s.stop()
	case "restart":
		if err := s.stop(); err != nil {
			return err
		}
		return s.start()
	case "reload":
		return s.reload()
	case "kill":
		return s.signal(signal)
	}
	return fmt.Errorf("the stand-in does not know it")
}

func (m *manager) service(name string) *service {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.services[name] == nil {
		m.services[name] = &service{m: m, name: name, active: "inactive", sub: "dead"}
	}
	return m.services[name]
}

// journal prints the last line of a unit that matches, of one invocation where
// it is given.
func (m *manager) journal(args []string) answer {
	value := func(flag string) string {
		if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
			return args[i+1]
		}
		return ""
	}
	s := m.service(value("--unit"))
	invocation := ""
	for _, a := range args {
		if id, ok := strings.CutPrefix(a, "_SYSTEMD_INVOCATION_ID="); ok {
			invocation = id
		}
	}
	pattern, err := regexp.Compile(value("--grep"))
	if err != nil {
		return answer{Stderr: err.Error(), Code: 2}
	}
	found := ""
	for line := range strings.Lines(s.log(invocation)) {
		if pattern.MatchString(line) {
			found = line
		}
	}
	if found == "" {
		return answer{Code: 1} // as journalctl says that nothing matched
	}
	return answer{Stdout: found}
}

// spawn starts a process and tells its end.
func (m *manager) spawn(argv []string, attr *syscall.ProcAttr) (int, <-chan syscall.WaitStatus, error) {
	m.mu.Lock() // no end may be seen before somebody waits for it
	defer m.mu.Unlock()
	pid, err := syscall.ForkExec(argv[0], argv, attr)
	if err != nil {
		return 0, nil, fmt.Errorf("cannot start %s: %w", argv[0], err)
	}
	ended := make(chan syscall.WaitStatus, 1)
	m.waiting[pid] = ended
	return pid, ended, nil
}

// reap takes in all that ends: process 1 inherits what containerd's shims and
// their containers leave.
func (m *manager) reap(ended <-chan os.Signal) {
	for range ended {
		for {
			m.mu.Lock()
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if err == nil && pid > 0 && m.waiting[pid] != nil {
				m.waiting[pid] <- status
				delete(m.waiting, pid)
			}
			m.mu.Unlock()
			if err != nil || pid <= 0 {
				break
			}
		}
	}
}

// expire is a deadline of the stand-in's own.
func expire() <-chan time.Time { return time.After(time.Minute) }
