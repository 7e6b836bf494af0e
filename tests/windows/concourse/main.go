//go:build windows

// Command concourse plays concourse.exe on Windows: a worker that registers at once and runs
// one task as Houdini does, outside its own job object.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

func main() {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	retired := filepath.Join(filepath.Dir(self), "retired")
	switch os.Args[1] {
	case "worker":
		work(self, retired)
	case "task":
		for { // a deadlock would end the process
			time.Sleep(time.Hour)
		}
	case "hello":
		fmt.Println("hello from " + runtime.GOOS)
	case "alive":
		os.Exit(alive(os.Args[2]))
	case "kill":
		kill(os.Args[2])
	case "retire-worker":
		if err := os.WriteFile(retired, []byte(strings.Join(os.Args, " ")), 0o600); err != nil {
			panic(err)
		}
	default:
		os.Exit(2)
	}
}

func work(self, retired string) {
	dir := os.Getenv("CONCOURSE_WORK_DIR")
	task := exec.Command(self, "task")
	task.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_BREAKAWAY_FROM_JOB}
	if err := task.Start(); err != nil {
		fmt.Printf("cannot start the task: %v\n", err)
		os.Exit(3)
	}
	env := strings.Join(os.Environ(), "\n")
	note := fmt.Sprintf("%d %d\n%s\n", os.Getpid(), task.Process.Pid, env)
	if err := os.WriteFile(filepath.Join(dir, "worker.txt.new"), []byte(note), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(filepath.Join(dir, "worker.txt.new"), filepath.Join(dir, "worker.txt")); err != nil {
		panic(err)
	}
	fmt.Println(`{"timestamp":"t","level":"info","source":"worker","message":"worker.beacon-runner.beacon.registered","data":{}}`)
	for {
		if _, err := os.Stat(retired); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// kill ends a process.
func kill(text string) {
	pid, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(err)
	}
}

// alive returns 0 for a running process and 1 for an ended one.
func alive(text string) int {
	pid, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		panic(err)
	}
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION|windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return 1
	}
	defer windows.CloseHandle(h)
	if event, err := windows.WaitForSingleObject(h, 0); err == nil && event == windows.WAIT_OBJECT_0 {
		return 1
	}
	return 0
}
