package worker

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"
	"golang.org/x/sys/windows/svc/mgr"
)

// Times and exit statuses of processes.
const (
	outputTimeout = time.Minute
	killedExit    = 1
	serviceFailed = 1
	resetFailures = 24 * 60 * 60 // seconds

	eventNumber = 1 // of an event with one text

	maxServiceConfig = 8 << 10 // the system allows no more
)

// manager opens the service manager and, if it is installed, the service.
func manager(access uint32, use func(m *mgr.Mgr, s *mgr.Service) error) error {
	h, err := windows.OpenSCManager(nil, nil, access)
	if err != nil {
		return fmt.Errorf("cannot open the service manager: %w", err)
	}
	m := &mgr.Mgr{Handle: h}
	defer m.Disconnect()
	name, err := windows.UTF16PtrFromString(ServiceName)
	if err != nil {
		return err
	}
	rights := uint32(windows.SERVICE_QUERY_CONFIG | windows.SERVICE_QUERY_STATUS)
	if access == windows.SC_MANAGER_ALL_ACCESS {
		rights = windows.SERVICE_ALL_ACCESS
	}
	s, err := windows.OpenService(h, name, rights)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return use(m, nil)
	}
	if err != nil {
		return fmt.Errorf("cannot open the service: %w", err)
	}
	service := &mgr.Service{Name: ServiceName, Handle: s}
	defer service.Close()
	return use(m, service)
}

// Service implements Machine. It needs no rights of an administrator.
func (machine) Service() (out Service, err error) {
	err = manager(windows.SC_MANAGER_CONNECT, func(_ *mgr.Mgr, s *mgr.Service) error {
		if s == nil {
			return nil
		}
		out.Installed = true
		c, err := configOf(s)
		if err != nil {
			return err
		}
		status, err := s.Query()
		if err != nil {
			return err
		}
		out.Account = windows.UTF16PtrToString(c.ServiceStartName)
		out.Path = windows.UTF16PtrToString(c.BinaryPathName)
		out.Automatic = c.StartType == mgr.StartAutomatic
		out.PID, out.Running, out.State = int(status.ProcessId), status.State == svc.Running, stateName(status.State)
		return nil
	})
	return out, err
}

// configOf reads the configuration that every system has, also Wine. mgr's Config reads more.
func configOf(s *mgr.Service) (*windows.QUERY_SERVICE_CONFIG, error) {
	var needed uint32
	buffer := make([]byte, maxServiceConfig)
	c := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buffer[0]))
	err := windows.QueryServiceConfig(s.Handle, c, maxServiceConfig, &needed)
	return c, err
}

func stateName(s svc.State) string {
	names := map[svc.State]string{svc.Stopped: "stopped", svc.StartPending: "starting", svc.StopPending: "stopping",
		svc.Running: "running", svc.ContinuePending: "continuing", svc.PausePending: "pausing", svc.Paused: "paused"}
	return names[s]
}

// SetService implements Machine. Windows restarts the process after each failure. The service
// itself restarts Concourse's worker.
func (machine) SetService(spec ServiceSpec) error {
	config := mgr.Config{StartType: mgr.StartAutomatic, ServiceStartName: spec.Account,
		ErrorControl: mgr.ErrorNormal, DisplayName: "Concourse worker",
		Description: "Runs tasks of Concourse on this machine and its AMD GPUs."}
	return manager(windows.SC_MANAGER_ALL_ACCESS, func(m *mgr.Mgr, s *mgr.Service) (err error) {
		if s == nil {
			if s, err = m.CreateService(ServiceName, spec.Path, config, spec.Args...); err != nil {
				return err
			}
			defer s.Close()
			// Without it Windows writes a line of its own before each event.
			_ = eventlog.InstallAsEventCreate(ServiceName, eventlog.Warning)
		} else {
			old, err := configOf(s)
			if err != nil {
				return err
			}
			config.ServiceType, config.BinaryPathName = old.ServiceType, windows.UTF16PtrToString(old.BinaryPathName)
			if err := s.UpdateConfig(config); err != nil && !errors.Is(err, windows.ERROR_INVALID_LEVEL) {
				return err
			}
		}
		restart := func(d time.Duration) mgr.RecoveryAction {
			return mgr.RecoveryAction{Type: mgr.ServiceRestart, Delay: d}
		}
		err = s.SetRecoveryActions([]mgr.RecoveryAction{restart(5 * time.Second), restart(30 * time.Second),
			restart(time.Minute)}, resetFailures)
		if err == nil {
			err = s.SetRecoveryActionsOnNonCrashFailures(true)
		}
		if errors.Is(err, windows.ERROR_INVALID_LEVEL) { // only Wine has no recovery
			return nil
		}
		return err
	})
}

// StartService implements Machine.
func (machine) StartService() error {
	return manager(windows.SC_MANAGER_ALL_ACCESS, func(_ *mgr.Mgr, s *mgr.Service) error {
		if s == nil {
			return windows.ERROR_SERVICE_DOES_NOT_EXIST
		}
		if err := s.Start(); err != nil && !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
			return err
		}
		return awaitState(s, svc.Running, stopLimit)
	})
}

// StopService implements Machine. A service that is missing or stopped needs no change.
func (machine) StopService(limit time.Duration) error {
	return manager(windows.SC_MANAGER_ALL_ACCESS, func(_ *mgr.Mgr, s *mgr.Service) error {
		if s == nil {
			return nil
		}
		if _, err := s.Control(svc.Stop); errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
			return nil
		} else if err != nil {
			return err
		}
		return awaitState(s, svc.Stopped, limit)
	})
}

func awaitState(s *mgr.Service, want svc.State, limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		status, err := s.Query()
		switch {
		case err != nil:
			return err
		case status.State == want:
			return nil
		case want == svc.Running && status.State == svc.Stopped:
			return fmt.Errorf("the service stopped with %d.%d; see its log", status.Win32ExitCode,
				status.ServiceSpecificExitCode)
		case time.Now().After(deadline):
			return fmt.Errorf("the service is still %s after %v", stateName(status.State), limit)
		}
	}
}

// RemoveService implements Machine.
func (machine) RemoveService() error {
	return manager(windows.SC_MANAGER_ALL_ACCESS, func(_ *mgr.Mgr, s *mgr.Service) error {
		if s == nil {
			return nil
		}
		_ = eventlog.Remove(ServiceName) // it may be missing
		return s.Delete()
	})
}

// RunService implements Machine.
func (machine) RunService(run func(ctx context.Context) error) error {
	return svc.Run(ServiceName, handler(run))
}

// handler implements svc.Handler.
type handler func(ctx context.Context) error

// Execute runs until Windows stops the service or the work ends.
func (h handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- h(ctx) }()
	running := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	status <- running
	for {
		select {
		case err := <-ended:
			if err != nil {
				return true, serviceFailed
			}
			return false, 0
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				status <- svc.Status{State: svc.StopPending, WaitHint: uint32(stopLimit.Milliseconds())}
				cancel()
			}
		}
	}
}

// Functions of the local security authority that x/sys lacks.
var (
	advapi32               = windows.NewLazySystemDLL("advapi32.dll")
	lsaOpenPolicy          = advapi32.NewProc("LsaOpenPolicy")
	lsaClose               = advapi32.NewProc("LsaClose")
	lsaAddAccountRights    = advapi32.NewProc("LsaAddAccountRights")
	lsaRemoveAccountRights = advapi32.NewProc("LsaRemoveAccountRights")
	policyLookupAndCreate  = uintptr(0x00000800 | 0x00000010)
	symbolicLinkRight      = "SeCreateSymbolicLinkPrivilege"
	statusNotFound         = windows.STATUS_OBJECT_NAME_NOT_FOUND
)

// SetLinkRight implements Machine. Concourse links the volumes of a task into its folder.
func (machine) SetLinkRight(account string, granted bool) error {
	text, err := sidOf(account)
	if err != nil {
		return err
	}
	sid, err := windows.StringToSid(text)
	if err != nil {
		return err
	}
	var policy uintptr
	r, _, _ := lsaOpenPolicy.Call(0, uintptr(unsafe.Pointer(&windows.OBJECT_ATTRIBUTES{})), policyLookupAndCreate,
		uintptr(unsafe.Pointer(&policy)))
	if r != 0 {
		return fmt.Errorf("cannot open the security policy: %w", windows.NTStatus(r))
	}
	defer lsaClose.Call(policy)
	right, err := windows.NewNTUnicodeString(symbolicLinkRight)
	if err != nil {
		return err
	}
	if granted {
		r, _, _ = lsaAddAccountRights.Call(policy, uintptr(unsafe.Pointer(sid)), uintptr(unsafe.Pointer(right)), 1)
	} else {
		r, _, _ = lsaRemoveAccountRights.Call(policy, uintptr(unsafe.Pointer(sid)), 0,
			uintptr(unsafe.Pointer(right)), 1)
		if windows.NTStatus(r) == statusNotFound { // it has no right
			return nil
		}
	}
	if r != 0 {
		return fmt.Errorf("cannot change the rights of %s: %w", account, windows.NTStatus(r))
	}
	return nil
}
