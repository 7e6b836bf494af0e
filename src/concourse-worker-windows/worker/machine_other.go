//go:build !windows

package worker

import (
	"context"
	"errors"
	"io"
	"time"
)

// errNotWindows reports the wrong system.
var errNotWindows = errors.New("this program is for Windows")

// notWindows implements Machine on other systems. Every function fails.
type notWindows struct{}

func (notWindows) Folders() (string, string, error)                  { return "", "", errNotWindows }
func (notWindows) HostName() (string, error)                         { return "", errNotWindows }
func (notWindows) CheckAdmin() error                                 { return errNotWindows }
func (notWindows) SelfPath() (string, error)                         { return "", errNotWindows }
func (notWindows) CheckOwner(string) error                           { return errNotWindows }
func (notWindows) MakeFolder(string, Access, string) error           { return errNotWindows }
func (notWindows) WriteFile(string, io.Reader, Access, string) error { return errNotWindows }
func (notWindows) Service() (Service, error)                         { return Service{}, errNotWindows }
func (notWindows) SetService(ServiceSpec) error                      { return errNotWindows }
func (notWindows) StartService() error                               { return errNotWindows }
func (notWindows) StopService(time.Duration) error                   { return errNotWindows }
func (notWindows) RemoveService() error                              { return errNotWindows }
func (notWindows) SetLinkRight(string, bool) error                   { return errNotWindows }
func (notWindows) RunService(func(context.Context) error) error      { return errNotWindows }
func (notWindows) StartChild(Command) (Child, error)                 { return nil, errNotWindows }
func (notWindows) Output(Command) (string, error)                    { return "", errNotWindows }
func (notWindows) LogEvent(string) error                             { return errNotWindows }
func (notWindows) GPUs() ([]GPU, error)                              { return nil, errNotWindows }
func (notWindows) Facts(string) Facts                                { return Facts{} }

// ThisMachine returns a machine without Windows.
func ThisMachine() Machine { return notWindows{} }
