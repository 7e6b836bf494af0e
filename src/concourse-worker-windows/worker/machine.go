// Package worker installs, runs, checks and removes a Concourse worker with AMD GPUs on
// Windows. Files of its name with _windows have the calls of the system. All decisions are in
// the other files, which build and are tested on every system.
//
// It never downloads a program, opens no port and stores no password.
package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Names on a machine.
const (
	Program     = "concourse-worker-windows"
	ServiceName = "concourse-worker"
	// DefaultAccount exists because of the service. It has no password and few rights.
	DefaultAccount = `NT SERVICE\` + ServiceName
	// LocalSystem has all rights on the machine.
	LocalSystem = "LocalSystem"
)

// errNotAdmin reports missing rights, with the fix.
var errNotAdmin = errors.New("open PowerShell with \"Run as administrator\"")

// errNoEnd reports a program that hangs.
var errNoEnd = errors.New("it does not end")

// explain adds the fix to an error of missing rights.
func explain(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; %w", err, errNotAdmin)
	}
	return err
}

// readOwn reads a file of an installation. Any user may make folders and files in ProgramData
// before there is one, so it checks the owner of both.
func readOwn(m Machine, path string) ([]byte, error) {
	for _, p := range []string{filepath.Dir(path), path} {
		if err := m.CheckOwner(p); err != nil {
			return nil, err
		}
	}
	return os.ReadFile(path)
}

// Access chooses who may use a file or folder. Administrators and the system always may.
type Access int

// The values of Access.
const (
	AdminsOnly    Access = iota
	ServiceReads         // the service's account reads
	ServiceWrites        // the service's account also writes and deletes
)

// Machine has the functions of the system that the program needs.
type Machine interface {
	Folders() (programs, data string, err error) // for programs, for data of programs
	HostName() (string, error)
	CheckAdmin() error // an error without the rights of an administrator
	SelfPath() (string, error)

	// CheckOwner fails for a file or folder that neither administrators nor the system own,
	// and for a link.
	CheckOwner(path string) error
	// MakeFolder and WriteFile set the access before there is any content. MakeFolder takes
	// an existing folder only if CheckOwner does. WriteFile replaces a file as a whole.
	MakeFolder(path string, a Access, account string) error
	WriteFile(path string, from io.Reader, a Access, account string) error

	Service() (Service, error)
	SetService(s ServiceSpec) error
	StartService() error
	StopService(limit time.Duration) error
	RemoveService() error
	SetLinkRight(account string, granted bool) error

	// RunService calls run as the process of the service. ctx ends when the service must stop.
	RunService(run func(ctx context.Context) error) error
	StartChild(c Command) (Child, error)
	// Output runs a program. It fails with errNoEnd if the program does not end in a minute.
	Output(c Command) (string, error)
	LogEvent(text string) error // a warning in the event log of Windows

	GPUs() ([]GPU, error)
	Facts(workDir string) Facts
}

// Command describes a process to start.
type Command struct {
	Path string
	Args []string
	Env  []string // name=value; nil: the environment of this process
	Dir  string
	Out  io.Writer // of stdout and stderr
}

// Child is a running process with all processes that it started.
type Child interface {
	PID() int
	Wait() (exit int, err error)
	Kill() error // ends the processes
}

// Service describes the installed service.
type Service struct {
	Installed bool
	Running   bool
	State     string // as Windows names it: running, stopped, ...
	Account   string
	Path      string
	PID       int
	Automatic bool
}

// ServiceSpec describes the service to install.
type ServiceSpec struct {
	Path, Account string
	Args          []string
}
