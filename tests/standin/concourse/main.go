// Command concourse replaces Concourse if no release is given: as a worker it starts the
// containerd that its environment names, as Concourse does, answers its health check and
// reports that it is registered. It talks to no web and starts no container by itself. As a
// web it answers the health check.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

// config is containerd's; %q is a folder that it would make below /opt.
const config = `version = 2
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[plugins."io.containerd.internal.v1.opt"]
path = %q
`

func main() {
	run := func() error { _, err := fmt.Println("8.2.5"); return err }
	if len(os.Args) == 2 && os.Args[1] == "worker" { // the charm reads its --help, too
		run = worker
	}
	help := os.Args[len(os.Args)-1] == "--help" // the charm checks flags with it
	if len(os.Args) > 1 && os.Args[1] == "web" && !help {
		run = web
	}
	if len(os.Args) > 1 && os.Args[1] == "migrate" { // the versions of the database and of the program are equal
		run = func() error { _, err := fmt.Println("1653924132"); return err }
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// web answers the charm's health check and login, and has no workers.
func web() error {
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"version":"8.2.5","worker_version":"2.5","access_token":"any"}`)
	})
	http.HandleFunc("/api/v1/workers", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") })
	return http.ListenAndServe(":"+os.Getenv("CONCOURSE_BIND_PORT"), nil)
}

func worker() error {
	dir := filepath.Join(os.Getenv("CONCOURSE_WORK_DIR"), "containerd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(dir, "containerd.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, dir+"/opt"), 0o600); err != nil {
		return err
	}
	bin := os.Getenv("CONCOURSE_CONTAINERD_BIN")
	if bin == "" {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		bin = filepath.Join(filepath.Dir(exe), "containerd")
		os.Setenv("PATH", filepath.Dir(exe)+":"+os.Getenv("PATH"))
	}
	daemon := exec.Command(bin, "--address=/run/containerd/containerd.sock", "--root="+dir, "--config="+file)
	daemon.Stdout, daemon.Stderr = os.Stdout, os.Stderr
	if err := daemon.Start(); err != nil {
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	ended := make(chan error, 2)
	go func() { ended <- fmt.Errorf("containerd ended: %w", daemon.Wait()) }()
	go func() {
		ended <- http.ListenAndServe(os.Getenv("CONCOURSE_HEALTHCHECK_BIND_IP")+":"+os.Getenv("CONCOURSE_HEALTHCHECK_BIND_PORT"),
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}()
	fmt.Println(`{"level":"info","source":"worker","message":"worker.beacon-runner.beacon.registered","data":{}}`)
	select {
	case err := <-ended:
		return err
	case <-told: // landed, retired, or to be started again
		daemon.Process.Signal(syscall.SIGTERM)
		<-ended
		return nil
	}
}
