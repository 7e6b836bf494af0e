// Package jobexporter serves the state of Concourse's jobs to Prometheus: result, end and
// duration of each job's last build in each team. It also counts the workers with the
// architectures that the site requires. It listens on port 9358.
//
// It polls Concourse's HTTP API on a separate timer, never because of a scrape, and shows
// the last answer. Its user's password is in a file that only the owner may read. The
// password is never in argv, the environment, a log or an answer. The package starts no
// program and writes no file. An object that Concourse removes disappears from the metrics
// with the next answer. Without an answer, the last one is shown for a limited time only,
// because an old state must not look current.
package jobexporter

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// CredentialsEnv names the credentials file if --credentials-file does not.
const CredentialsEnv = "CONCOURSE_EXPORTER_CREDENTIALS_FILE"

const (
	defaultInterval = 30 * time.Second
	defaultTimeout  = 20 * time.Second
	defaultKeep     = 5 * time.Minute
	minInterval     = 5 * time.Second
	minTimeout      = time.Second
)

const (
	maxName = 1024     // bytes of a team, pipeline with its vars, or job
	maxFile = 64 << 10 // bytes of the credentials file
	maxCA   = 1 << 20  // bytes of its ca-file
)

// Run runs the program. It serves until SIGTERM or SIGINT and returns its exit status.
// version is only for --version and concourse_exporter_info. pages may be nil.
func Run(version string, args []string, getenv func(string) string, pages Pages, stdout, stderr io.Writer) int {
	c, _ := newCommand(version, getenv, pages)
	return commandline.Run(context.Background(), c, args, stdout, stderr)
}

func run(stop context.Context, s *metricsserver.Server, version string, o options, pages Pages) error {
	if err := s.Listen(); err != nil {
		return err
	}
	p := NewPoller(Options{CredentialsFile: o.credentials, Timeout: o.timeout, Keep: o.keepFor, RequiredArchs: o.archs,
		Version: version, Logs: s.Logs, Now: time.Now, Site: pages != nil})
	handler := Handler(p, o.process)
	stop, cancel := context.WithCancel(stop)
	var ended <-chan struct{}
	if pages != nil {
		s.URLs = pages.URLs
		ended = pages.Start(stop, Surroundings{Site: p.Site, Get: NewGet(o.credentials, time.Now), Show: p.Show,
			Every: o.interval, Version: version, Folder: o.folder, Logs: s.Logs}, handler)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.follow(stop, time.Tick(o.interval), s.Reload)
	}()
	err := s.Serve(stop, handler)
	cancel()
	if <-done; pages != nil {
		<-ended
	}
	return err
}

// follow polls at once, at each tick, and after each signal with a new login.
func (p *Poller) follow(stop context.Context, tick <-chan time.Time, reload <-chan os.Signal) {
	for {
		p.Poll(stop) // the result is in the state
		select {
		case <-stop.Done():
			return
		case <-tick:
		case <-reload:
			p.Reload()
		}
	}
}

const help = "Serves the results of the last builds of Concourse's jobs to Prometheus. It polls Concourse's API, " +
	"without fly or root. With --fleet.file it also serves a page of all workers' GPUs. It ends with its parent " +
	"process. SIGHUP logs in again and polls at once."

// options holds the command line.
type options struct {
	credentials string
	interval    time.Duration
	timeout     time.Duration
	keepFor     time.Duration
	archs       []string
	folder      string
	process     bool
	server      *metricsserver.Flags
}

// newCommand returns the program's command line and the options that it fills.
func newCommand(version string, getenv func(string) string, pages Pages) (*cobra.Command, *options) {
	o := &options{}
	c := &cobra.Command{Use: "concourse-exporter [flags]", Version: version, Args: commandline.NoArgs, Long: help,
		Example: "concourse-exporter --credentials-file=/etc/concourse-exporter.json",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(getenv); err != nil {
				return commandline.Wrong(c, err)
			}
			return o.server.Run(c, func(stop context.Context, s *metricsserver.Server) error {
				return run(stop, s, version, *o, pages)
			})
		}}
	fs := c.Flags()
	o.server = metricsserver.Declare(fs, wellknown.JobsPort)
	fs.StringVar(&o.credentials, "credentials-file", "",
		"`file`, 0600, with Concourse's url, username and password in JSON; or $"+CredentialsEnv)
	fs.DurationVar(&o.interval, "poll.interval", defaultInterval,
		fmt.Sprintf("`time` between two polls of Concourse, %s or more", minInterval))
	fs.DurationVar(&o.timeout, "poll.timeout", defaultTimeout,
		fmt.Sprintf("longest `time` of a poll, from %s to --poll.interval", minTimeout))
	fs.DurationVar(&o.keepFor, "poll.keep", defaultKeep,
		"`time` to show the last answer if Concourse does not answer")
	fs.Func("required-archs", "count running workers with the tags gfx= of these comma-separated "+
		"`architectures`", func(s string) (err error) {
		o.archs, err = parseArchs(s)
		return err
	})
	fs.StringVar(&o.folder, "state.folder", "",
		"`folder` of this program's user for files that survive a restart; empty: none")
	metricsserver.DeclareProcess(fs, &o.process)
	if pages != nil {
		pages.Flags(fs)
	}
	return c, o
}

// check validates the command line and completes it from the environment.
func (o *options) check(getenv func(string) string) error {
	if o.credentials == "" {
		o.credentials = getenv(CredentialsEnv)
	}
	switch {
	case o.credentials == "":
		return fmt.Errorf("no --credentials-file given")
	case o.folder != "" && !filepath.IsAbs(o.folder):
		return fmt.Errorf("invalid value %q for flag --state.folder: not an absolute path", o.folder)
	case o.interval < minInterval:
		return fmt.Errorf("invalid value %s for flag --poll.interval: at least %s", o.interval, minInterval)
	case o.timeout < minTimeout || o.timeout > o.interval:
		return fmt.Errorf("invalid value %s for flag --poll.timeout: from %s to --poll.interval, which is %s",
			o.timeout, minTimeout, o.interval)
	case o.keepFor < 0:
		return fmt.Errorf("invalid value %s for flag --poll.keep: at least 0s", o.keepFor)
	}
	return o.server.Check()
}

// maxArchs is far above the number in one release of ROCm.
const maxArchs = 64

func unfit(r rune) bool { return r <= ' ' || r > '~' }

// parseArchs returns names that are valid in a label and a tag, each once.
func parseArchs(s string) (archs []string, err error) {
	for arch := range strings.SplitSeq(s, ",") {
		if arch = strings.TrimSpace(arch); arch == "" || len(arch) > 32 || strings.ContainsFunc(arch, unfit) {
			return nil, fmt.Errorf("want architectures such as gfx90a,gfx942")
		}
		if !slices.Contains(archs, arch) {
			archs = append(archs, arch)
		}
	}
	if len(archs) > maxArchs {
		return nil, fmt.Errorf("want at most %d architectures", maxArchs)
	}
	return archs, nil
}

// atOnce bounds the memory: a scrape of 10,000 jobs takes 20 MB while it runs.
const atOnce = 4

// Handler serves /metrics, including this process's own if process is set, /-/healthy and
// /-/ready. Healthy depends only on the exporter, because a restart of it would not fix
// Concourse.
func Handler(p *Poller, process bool) *http.ServeMux {
	mux := metricsserver.NewMux("concourse-exporter")
	mux.Handle("GET /metrics", metricsserver.NewLimited(atOnce).Wrap(metricsserver.Metrics(process, p)))
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.Ready(); err != nil {
			metricsserver.WriteText(w, http.StatusServiceUnavailable, err.Error()+".\n")
			return
		}
		metricsserver.WriteText(w, http.StatusOK, "Concourse answers.\n")
	})
	return mux
}
