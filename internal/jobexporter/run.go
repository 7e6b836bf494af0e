package jobexporter

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"concourse-ci-machine/internal/exporter/program"
	"concourse-ci-machine/internal/exporter/watchdog"
)

// Run is the program. It serves until SIGTERM or SIGINT and returns its exit
// status. version is only told, in --version and concourse_exporter_info.
func Run(version string, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	o, fs, err := parse(args, getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		program.Usage(stdout, fs, intro)
		return program.ExitOK
	case err != nil:
		fmt.Fprintf(stderr, "concourse-exporter: %v; see concourse-exporter --help\n", err)
		return program.ExitUsage
	case o.version:
		fmt.Fprintf(stdout, "concourse-exporter %s\n", version)
		return program.ExitOK
	}
	if err := run(version, o, stderr); err != nil {
		fmt.Fprintf(stderr, "concourse-exporter: %v\n", err)
		return program.ExitFailed
	}
	return program.ExitOK
}

// watchTime is how long the program may fail to answer itself before the kernel
// ends it: Pebble's own check acts once, and not again on a program that hangs
// again.
const watchTime = 20 * time.Second

func run(version string, o options, stderr io.Writer) error {
	// Before anything else: a SIGHUP that came earlier would end the program.
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := program.EndWithParent(); err != nil {
		return err
	}
	dog, err := watchdog.Start(watchTime)
	if err != nil {
		return err
	}
	l, err := program.Listen(o.listen)
	if err != nil {
		return err
	}
	logs := log.New(stderr, "concourse-exporter: ", 0)
	logs.Printf("listening on %s", l.Addr())
	p := NewPoller(Options{
		CredentialsFile: o.credentials, Timeout: o.timeout, Keep: o.keep, RequiredArchs: o.archs,
		Version: version, Logs: logs, Now: time.Now,
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(o.interval)
		defer tick.Stop()
		p.follow(stop, tick.C, again)
	}()
	go dog.Watch(watchdog.Healthy(l.Addr().String(), "/-/healthy"), logs.Printf)
	err = program.Serve(stop, l, Handler(p), logs)
	cancel()
	<-done
	return err
}

// follow polls at once, at each tick, and after each signal with a new login.
func (p *Poller) follow(stop context.Context, tick <-chan time.Time, again <-chan os.Signal) {
	for {
		p.Poll(stop) // what comes of it is in the state
		select {
		case <-stop.Done():
			return
		case <-tick:
		case <-again:
			p.Reload()
		}
	}
}
