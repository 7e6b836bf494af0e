// Package exporter is the program rocm-exporter: it serves the state of GPUs to
// Prometheus, to people and to other programs. It needs no ROCm, no vendor library, no
// agent, and no privilege but to see other users' processes.
//
// Packages amdgpu and nvidiagpu read one GPU into a typed state, package health judges that, package
// monitor does so for all GPUs at once and hands out a snapshot, and metrics (package
// series), the API and the page are made from it.
package exporter

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/metricsserver"
	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
)

// Run is the program. It serves until SIGTERM or SIGINT, opens everything anew
// at SIGHUP, and returns its exit status. version is only told, in --version and rocm_exporter_build_info.
func Run(version string, args []string, stdout, stderr io.Writer) int {
	o, fs, err := parse(args)
	return fs.Main(err, intro, version, stdout, stderr, func(stop context.Context, s *metricsserver.Server) error {
		return run(stop, s, version, o)
	})
}

func run(stop context.Context, s *metricsserver.Server, version string, o options) error {
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
	if o.nvidiaWrite != "" {
		w := nvidiagpu.NewWatcher(host.Host{Root: root, Runner: host.Exec{}, Clock: host.WallClock{}})
		return repeat(stop, nvidiagpu.Every, s.Postpone, func() error { return w.Write(stop, o.nvidiaWrite) })
	}
	m := monitor.New(root, sources[o.vendor](root), o.collect)
	if o.usageWrite != "" {
		return repeat(stop, o.collect.UsageInterval, s.Postpone, func() error { return m.ReportUsers(stop, o.usageWrite) })
	}
	if err := s.Listen(); err != nil {
		return err
	}
	go m.Watch(stop)
	go m.Reloads(stop, s.Reload, s.Logs)
	return s.Serve(stop, Handler(&Source{Root: root, Unit: o.unit, Version: version, Monitor: m}, o.shown))
}

// repeat looks until stop is done. alive is called before each look.
func repeat(stop context.Context, every time.Duration, alive, look func() error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
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
		case <-tick.C:
		}
	}
}
