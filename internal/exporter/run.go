package exporter

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"concourse-ci-machine/internal/exporter/program"
	"concourse-ci-machine/internal/exporter/watchdog"
	"concourse-ci-machine/internal/host"
)

// Run is the program. It serves until SIGTERM or SIGINT, opens everything anew
// at SIGHUP, and returns its exit status. version is only told, in --version and rocm_exporter_build_info.
func Run(version string, args []string, stdout, stderr io.Writer) int {
	o, fs, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		help(stdout, fs)
		return program.ExitOK
	case err != nil:
		fmt.Fprintf(stderr, "rocm-exporter: %v; see rocm-exporter --help\n", err)
		return program.ExitUsage
	case o.version:
		fmt.Fprintf(stdout, "rocm-exporter %s\n", version)
		return program.ExitOK
	}
	if err := run(version, o, stderr); err != nil {
		fmt.Fprintf(stderr, "rocm-exporter: %v\n", err)
		return program.ExitFailed
	}
	return program.ExitOK
}

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
	var dog *watchdog.Watchdog
	if limit := o.watchdog; limit > 0 {
		if o.usageWrite != "" {
			limit += o.collect.UsageInterval
		}
		var err error
		if dog, err = watchdog.Start(limit); err != nil {
			return err
		}
	}
	if os.Getenv("GOMAXPROCS") == "" {
		// Waking other processors costs more than a scrape, and they are there
		// for the machine's own work. Readings wait in the kernel all the same,
		// each in a thread of its own.
		runtime.GOMAXPROCS(1)
	}
	root := host.Root(o.root)
	if _, err := root.ReadDir("/"); err != nil {
		return fmt.Errorf("cannot read --path.root: %w", err)
	}
	logs := log.New(stderr, "rocm-exporter: ", 0)
	c := NewCollector(root, AMD(root), version, o.collect)
	if o.usageWrite != "" {
		return c.reportUsers(stop, o.usageWrite, dog.PutOff)
	}
	l, err := program.Listen(o.listen)
	if err != nil {
		return err
	}
	logs.Printf("listening on %s", l.Addr())
	go c.kernel.follow(stop, root, c.now)
	go c.Watch(stop)
	go c.Record(stop)
	go c.reloads(stop, again, logs)
	if dog != nil {
		go dog.Watch(watchdog.Healthy(l.Addr().String(), healthPath), logs.Printf)
	}
	return program.Serve(stop, l, Handler(c), logs)
}
