package jobexporter

import (
	"context"
	"io"
	"os"
	"time"

	"concourse-ci-machine/internal/base/metricsserver"
)

// Run is the program. It serves until SIGTERM or SIGINT and returns its exit
// status. version is only told, in --version and concourse_exporter_info.
func Run(version string, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	o, fs, err := parse(args, getenv)
	return fs.Main(err, intro, version, stdout, stderr, func(stop context.Context, s *metricsserver.Server) error {
		return run(stop, s, version, o)
	})
}

func run(stop context.Context, s *metricsserver.Server, version string, o options) error {
	if err := s.Listen(); err != nil {
		return err
	}
	p := NewPoller(Options{
		CredentialsFile: o.credentials, Timeout: o.timeout, Keep: o.keep, RequiredArchs: o.archs,
		Version: version, Logs: s.Logs, Now: time.Now,
	})
	stop, cancel := context.WithCancel(stop)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(o.interval)
		defer tick.Stop()
		p.follow(stop, tick.C, s.Reload)
	}()
	err := s.Serve(stop, Handler(p, o.process))
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
