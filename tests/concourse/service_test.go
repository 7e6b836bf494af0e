//go:build e2e

package concourse

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// service is a unit of the manager. Its output is the journal: a file for each
// invocation.
type service struct {
	m    *manager
	name string

	mu          sync.Mutex
	unit        unitFile
	enabled     bool
	active, sub string
	pid         int
	invocation  string
	invocations []string
	stopping    bool
	down        chan struct{} // closed when the process has ended
	again       *time.Timer   // of Restart=
}

func (s *service) file() string { return "/etc/systemd/system/" + s.name }

func (s *service) show() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	load, file := "not-found", ""
	if _, err := os.Stat(s.file()); err == nil {
		load, file = "loaded", "disabled"
	}
	if s.enabled {
		file = "enabled"
	}
	return fmt.Sprintf("Id=%s\nLoadState=%s\nActiveState=%s\nSubState=%s\nUnitFileState=%s\nInvocationID=%s\n\n", s.name, load, s.active, s.sub, file, s.invocation)
}

func (s *service) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pid != 0 {
		return nil
	}
	if s.again != nil {
		s.again.Stop()
	}
	s.stopping = false
	if !strings.HasSuffix(s.name, ".service") {
		// A path or a timer is kept; the stand-in watches none.
		s.active, s.sub = "active", "waiting"
		_, err := os.Stat(s.file())
		return err
	}
	if err := s.run(); err != nil {
		s.active, s.sub = "failed", "failed"
		return err
	}
	return nil
}

// run starts the process; for Type=notify it waits until it says that it is ready.
func (s *service) run() (err error) {
	if s.unit, err = readUnit(s.file()); err != nil {
		return err
	}
	attr := &syscall.ProcAttr{Dir: s.unit.get("WorkingDirectory"), Sys: &syscall.SysProcAttr{Setsid: true}}
	if attr.Env, err = s.unit.environment(); err != nil {
		return err
	}
	id := make([]byte, 16)
	rand.Read(id)
	s.invocation = hex.EncodeToString(id)
	s.invocations = append(s.invocations, s.invocation)
	log, err := os.OpenFile(s.path(s.invocation), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	attr.Files = []uintptr{null.Fd(), log.Fd(), log.Fd()}
	for _, line := range s.unit["ExecStartPre"] {
		if _, ended, err := s.m.spawn(splitWords(line), attr); err != nil {
			return err
		} else if status := <-ended; status.ExitStatus() != 0 {
			return fmt.Errorf("%s ended with %d", line, status.ExitStatus())
		}
	}
	if attr.Sys.Credential, err = credential(s.unit.get("User")); err != nil {
		return err
	}
	ready := func() error { return nil }
	if s.unit.get("Type") == "notify" {
		if attr.Env, ready, err = notify(attr.Env); err != nil {
			return err
		}
	}
	pid, ended, err := s.m.spawn(splitWords(s.unit.get("ExecStart")), attr)
	if err != nil {
		return err
	}
	s.pid, s.active, s.sub, s.down = pid, "active", "running", make(chan struct{})
	go s.wait(ended, s.down)
	return ready()
}

func credential(name string) (*syscall.Credential, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(uidErr, gidErr)
}

func notify(env []string) ([]string, func() error, error) {
	path := fmt.Sprintf("/run/notify-%d", time.Now().UnixNano())
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, nil, err
	}
	return append(env, "NOTIFY_SOCKET="+path), func() error {
		defer os.Remove(path)
		defer l.Close()
		l.SetReadDeadline(time.Now().Add(time.Minute))
		for b := make([]byte, 4096); ; {
			n, err := l.Read(b)
			if err != nil {
				return fmt.Errorf("it did not say that it is ready: %w", err)
			}
			if slices.Contains(strings.Split(string(b[:n]), "\n"), "READY=1") {
				return nil
			}
		}
	}, nil
}

// wait follows the process to its end, and starts it again where the unit says
// so.
func (s *service) wait(ended <-chan syscall.WaitStatus, down chan struct{}) {
	status := <-ended
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(down)
	s.pid = 0
	clean := status.Exited() && status.ExitStatus() == 0
	if status.Signaled() { // systemd.service(5), SuccessExitStatus=
		clean = slices.Contains([]syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE}, status.Signal()) &&
			!(status.Signal() == syscall.SIGHUP && s.unit.get("RestartForceExitStatus") == "SIGHUP")
	}
	restart := s.unit.get("Restart")
	switch {
	case s.stopping, clean && restart != "always":
		s.active, s.sub = "inactive", "dead"
		if !clean && !s.stopping {
			s.active, s.sub = "failed", "failed"
		}
	case restart == "always", restart == "on-failure":
		s.active, s.sub = "activating", "auto-restart"
		seconds, err := strconv.Atoi(s.unit.get("RestartSec"))
		if err != nil {
			seconds = 1
		}
		s.again = time.AfterFunc(time.Duration(seconds)*time.Second, func() { s.start() })
	default:
		s.active, s.sub = "failed", "failed"
	}
}

func (s *service) stop() error {
	s.mu.Lock()
	if s.again != nil {
		s.again.Stop()
	}
	s.stopping = true
	pid, down := s.pid, s.down
	if pid == 0 {
		s.active, s.sub = "inactive", "dead"
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-down:
		return nil
	case <-expire(): // TimeoutStopSec
	}
	syscall.Kill(pid, syscall.SIGKILL)
	<-down
	return fmt.Errorf("it did not end within a minute of SIGTERM")
}

func (s *service) signal(name string) error {
	numbers := map[string]syscall.Signal{"SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2, "SIGHUP": syscall.SIGHUP, "SIGKILL": syscall.SIGKILL}
	s.mu.Lock()
	defer s.mu.Unlock()
	number, ok := numbers[name]
	if !ok || s.pid == 0 {
		return fmt.Errorf("no process, or no signal %q", name)
	}
	return syscall.Kill(s.pid, number)
}

// reload runs ExecReload.
func (s *service) reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.unit.get("ExecReload")
	if s.pid == 0 || line == "" {
		return fmt.Errorf("it does not run, or has no ExecReload")
	}
	argv := splitWords(strings.ReplaceAll(line, "$MAINPID", strconv.Itoa(s.pid)))
	_, ended, err := s.m.spawn(argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return err
	}
	if status := <-ended; status.ExitStatus() != 0 {
		return fmt.Errorf("%s ended with %d", line, status.ExitStatus())
	}
	return nil
}

func (s *service) path(invocation string) string {
	return filepath.Join(s.m.dir, "log", s.name+"."+invocation)
}

// log is what one invocation said, or all of them.
func (s *service) log(invocation string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, id := range s.invocations {
		if invocation == "" || invocation == id {
			data, _ := os.ReadFile(s.path(id)) // nothing said is nothing found
			b.Write(data)
		}
	}
	return b.String()
}
