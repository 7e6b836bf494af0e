package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/eventlog"
)

// ThisMachine returns the machine of this process.
func ThisMachine() Machine { return machine{} }

// machine implements Machine by the calls of Windows.
type machine struct{}

// Folders implements Machine.
func (machine) Folders() (programs, data string, err error) {
	if programs, err = windows.KnownFolderPath(windows.FOLDERID_ProgramFiles, 0); err != nil {
		return "", "", fmt.Errorf("cannot find the folder of programs: %w", err)
	}
	if data, err = windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0); err != nil {
		return "", "", fmt.Errorf("cannot find the folder of data: %w", err)
	}
	return programs, data, nil
}

// HostName implements Machine.
func (machine) HostName() (string, error) { return os.Hostname() }

// CheckAdmin implements Machine.
func (machine) CheckAdmin() error {
	admins, err := windows.CreateWellKnownSid(windows.WinBuiltinAdministratorsSid)
	if err != nil {
		return err
	}
	is, err := windows.Token(0).IsMember(admins)
	if err == nil && !is {
		err = errNotAdmin
	}
	return err
}

// SelfPath implements Machine.
func (machine) SelfPath() (string, error) { return os.Executable() }

// sidOf returns the security id of an account as a string.
func sidOf(account string) (string, error) {
	switch account {
	case DefaultAccount:
		return serviceSID(ServiceName), nil
	case LocalSystem:
		return "SY", nil
	}
	sid, _, _, err := windows.LookupSID("", account)
	if err != nil {
		return "", fmt.Errorf("cannot find the account %s: %w", account, err)
	}
	return sid.String(), nil
}

func security(a Access, account string, folder bool) (*windows.SECURITY_DESCRIPTOR, error) {
	sid, err := sidOf(account)
	if err != nil {
		return nil, err
	}
	return windows.SecurityDescriptorFromString(descriptor(a, sid, folder))
}

// CheckOwner implements Machine.
func (machine) CheckOwner(path string) error {
	h, _, err := openOwn(path, 0)
	if err != nil {
		return err
	}
	return windows.CloseHandle(h)
}

// openOwn opens a file or folder that administrators or the system own. It follows no link:
// another user may have made the link, or replaces the path by one at this moment.
func openOwn(path string, access uint32) (h windows.Handle, info windows.ByHandleFileInformation, err error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, info, err
	}
	h, err = windows.CreateFile(name, access|windows.READ_CONTROL|windows.FILE_READ_ATTRIBUTES,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return 0, info, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if err = windows.GetFileInformationByHandle(h, &info); err == nil {
		err = checkOwner(h, path)
	}
	if err == nil && info.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 {
		err = fmt.Errorf("%s is a link; remove it", path)
	}
	if err != nil {
		return 0, info, errors.Join(err, windows.CloseHandle(h))
	}
	return h, info, nil
}

func checkOwner(h windows.Handle, path string) error {
	sd, err := windows.GetSecurityInfo(h, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return err
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return err
	}
	if owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) || owner.IsWellKnown(windows.WinLocalSystemSid) ||
		wineVersion.Find() == nil { // Wine stores no owners
		return nil
	}
	who := owner.String()
	if account, domain, _, err := owner.LookupAccount(""); err == nil {
		who = domain + `\` + account
	}
	return fmt.Errorf("%[1]s belongs to %[2]s, and not to Administrators or SYSTEM; remove it, or if it is yours run: "+
		`icacls "%[1]s" /setowner Administrators`, path, who)
}

// wineVersion is a function that only Wine has.
var wineVersion = windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version")

// MakeFolder implements Machine. An existing folder gets the access.
func (machine) MakeFolder(path string, a Access, account string) error {
	sd, err := security(a, account, true)
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	sa := windows.SecurityAttributes{SecurityDescriptor: sd}
	sa.Length = uint32(unsafe.Sizeof(sa))
	err = windows.CreateDirectory(name, &sa)
	if !errors.Is(err, windows.ERROR_ALREADY_EXISTS) {
		return err
	}
	h, info, err := openOwn(path, windows.WRITE_DAC|windows.WRITE_OWNER|windows.FILE_LIST_DIRECTORY)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	if info.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY == 0 {
		return fmt.Errorf("%s is a file; remove it", path)
	}
	dacl, _, err := sd.DACL()
	if err != nil {
		return err
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return err
	}
	return windows.SetSecurityInfo(h, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, owner, nil, dacl, nil)
}

// WriteFile implements Machine.
func (machine) WriteFile(path string, from io.Reader, a Access, account string) (err error) {
	sd, err := security(a, account, false)
	if err != nil {
		return err
	}
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	name, err := windows.UTF16PtrFromString(fresh)
	if err != nil {
		return err
	}
	sa := windows.SecurityAttributes{SecurityDescriptor: sd}
	sa.Length = uint32(unsafe.Sizeof(sa))
	h, err := windows.CreateFile(name, windows.GENERIC_WRITE, 0, &sa, windows.CREATE_NEW,
		windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(h), fresh)
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return nil
}

// Output implements Machine. A process that hangs in a driver does not end when it is killed.
func (machine) Output(c Command) (string, error) {
	cmd := exec.Command(c.Path, c.Args...)
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = filepath.Dir(c.Path), c.Env, &out, &out
	cmd.WaitDelay = time.Second // for processes that hold its output
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return out.String(), err
	case <-time.After(outputTimeout):
		return "", errors.Join(errNoEnd, cmd.Process.Kill())
	}
}

// LogEvent implements Machine.
func (machine) LogEvent(text string) error {
	log, err := eventlog.Open(ServiceName)
	if err != nil {
		return err
	}
	return errors.Join(log.Warning(eventNumber, text), log.Close())
}

// StartChild implements Machine. The process is in two nested jobs. Concourse starts each
// task outside its own job (CREATE_BREAKAWAY_FROM_JOB). The inner job allows that, because
// Windows refuses to start the task otherwise. The outer job does not, so it has the tasks as
// well, and ends everything when this process ends.
func (machine) StartChild(c Command) (Child, error) {
	outer, err := newJob(windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE)
	if err != nil {
		return nil, err
	}
	inner, err := newJob(windows.JOB_OBJECT_LIMIT_BREAKAWAY_OK)
	if err != nil {
		return nil, errors.Join(err, windows.CloseHandle(outer))
	}
	defer windows.CloseHandle(inner) // the processes in it keep it
	read, write, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, windows.CloseHandle(outer))
	}
	defer write.Close() // the child has its own
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true,
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, read.Close(), windows.CloseHandle(outer))
	}
	child := &job{cmd: cmd, outer: outer, copied: make(chan struct{})}
	if err := child.resume(inner); err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), read.Close(), windows.CloseHandle(outer))
	}
	go func() {
		defer close(child.copied)
		defer read.Close()
		_, _ = io.Copy(c.Out, read) // a log that fails must not end the worker
	}()
	return child, nil
}

func newJob(limits uint32) (windows.Handle, error) {
	h, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("cannot create a job object: %w", err)
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: limits}}
	_, err = windows.SetInformationJobObject(h, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		return 0, errors.Join(fmt.Errorf("cannot limit a job object: %w", err), windows.CloseHandle(h))
	}
	return h, nil
}

// job implements Child.
type job struct {
	cmd    *exec.Cmd
	outer  windows.Handle
	copied chan struct{} // closed after the last output
}

// resume puts the suspended process into the jobs and lets it run.
func (j *job) resume(inner windows.Handle) error {
	pid := uint32(j.cmd.Process.Pid)
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, pid)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	for _, to := range []windows.Handle{j.outer, inner} {
		if err := windows.AssignProcessToJobObject(to, h); err != nil {
			return fmt.Errorf("cannot put the process into a job object: %w", err)
		}
	}
	threads, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(threads)
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(threads, &entry); err == nil; err = windows.Thread32Next(threads, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		t, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return err
		}
		_, err = windows.ResumeThread(t)
		return errors.Join(err, windows.CloseHandle(t))
	}
	return fmt.Errorf("cannot find the thread of process %d: %w", pid, err)
}

// PID implements Child.
func (j *job) PID() int { return j.cmd.Process.Pid }

// Wait implements Child. It waits for the process only. Tasks inherit the pipe of the log, and
// may hold it until Kill.
func (j *job) Wait() (int, error) {
	err := j.cmd.Wait()
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) {
		return j.cmd.ProcessState.ExitCode(), nil
	}
	return 0, err
}

// Kill implements Child.
func (j *job) Kill() error {
	err := windows.TerminateJobObject(j.outer, killedExit)
	if err = errors.Join(err, windows.CloseHandle(j.outer)); err == nil {
		<-j.copied
	}
	return err
}
