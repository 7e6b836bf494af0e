// Package exporter implements the program rocm-exporter, which serves the state of GPUs to
// Prometheus, to people and to other programs. It needs no ROCm, no vendor library and no
// agent. Its only privilege is to see other users' processes.
//
// Packages amdgpu and nvidiagpu read one GPU into a typed state, and package health judges
// the state. Package monitor does both for all GPUs at once and returns a snapshot. Metrics
// (package series), the API and the page are made from the snapshot.
package exporter

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
)

// Run runs the program until SIGTERM or SIGINT and returns its exit status. At SIGHUP it
// opens all files again. version appears in --version and rocm_exporter_build_info.
func Run(version string, args []string, stdout, stderr io.Writer) int {
	c, _ := newCommand(version)
	return commandline.Run(context.Background(), c, args, stdout, stderr)
}

func run(stop context.Context, s *metricsserver.Server, version string, o options) error {
	if os.Getenv("GOMAXPROCS") == "" {
		// Waking other processors costs more than a scrape, and the machine's own work
		// needs them. Readings still wait in the kernel in parallel, each in its own
		// thread.
		runtime.GOMAXPROCS(1)
	}
	root := host.Root(o.root)
	if _, err := root.ReadDir("/"); err != nil {
		return fmt.Errorf("cannot read --path.root: %w", err)
	}
	if o.nvidiaWrite != "" {
		w := nvidiagpu.NewWatcher(host.Host{Root: root, Runner: host.Exec{}, Clock: host.WallClock{}})
		return repeat(stop, nvidiagpu.Every, s.Postpone, func() error { return w.Write(stop, o.nvidiaWrite) })
	}
	if o.tasks.Store.Dir != "" {
		o.tasks.Root, o.tasks.Log, o.tasks.Alive, o.tasks.Store.Dir = root, s.Logs.Printf, s.Postpone, root.Path(o.tasks.Store.Dir)
		o.tasks.Usage = o.collect.UsageReport
		r, err := recorder.New(o.tasks)
		if err != nil {
			return err
		}
		return r.Run(stop)
	}
	o.collect.Tasks, o.links.Tasks = o.tasks.Report, o.tasks.Report != ""
	m := monitor.New(root, monitor.Of(root, vendorsOf(o.vendor)...), o.collect)
	if o.usageWrite != "" {
		return repeat(stop, o.collect.UsageInterval, s.Postpone,
			func() error { return m.ReportUsers(stop, o.usageWrite) })
	}
	s.URLs = func() []string { return []string{o.links.Self} }
	if err := s.Listen(); err != nil {
		return err
	}
	go m.Watch(stop)
	go m.Reloads(stop, s.Reload, s.Logs)
	source := &Source{Root: root, Unit: o.unit, Version: version, Links: o.links, Monitor: m}
	return s.Serve(stop, Handler(source, o.metrics))
}

// repeat calls alive and then look at each interval until stop is done.
func repeat(stop context.Context, every time.Duration, alive, look func() error) error {
	tick := time.Tick(every)
	for {
		if err := alive(); err != nil {
			return err
		}
		if err := look(); err != nil {
			return err
		}
		select {
		case <-stop.Done():
			return nil
		case <-tick:
		}
	}
}
