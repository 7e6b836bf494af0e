package jobexporter

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/metricsserver"
	"concourse-ci-machine/internal/base/wellknown"
)

const intro = `Usage: concourse-exporter [flags]

Serves to Prometheus how the last builds of Concourse's jobs ended. It asks
Concourse's API on a timer, needs no fly and no root, and ends with the process
that started it. SIGHUP: log in anew and ask at once.

`

// options are the command line.
type options struct {
	credentials string
	interval    time.Duration
	timeout     time.Duration
	keep        time.Duration
	archs       []string
	process     bool
}

// parse reads the command line. The error is for metricsserver.Flags.Main.
func parse(args []string, getenv func(string) string) (options, *metricsserver.Flags, error) {
	var o options
	fs := metricsserver.NewFlags("concourse-exporter", wellknown.JobsPort)
	fs.StringVar(&o.credentials, "credentials-file", "", "`file`, 0600, with Concourse's url, username and password as JSON; or $"+CredentialsEnv)
	fs.DurationVar(&o.interval, "poll.interval", defaultInterval, fmt.Sprintf("`time` between two polls of Concourse, %s or more", minInterval))
	fs.DurationVar(&o.timeout, "poll.timeout", defaultTimeout, fmt.Sprintf("`time` that one poll may take, from %s to --poll.interval", minTimeout))
	fs.DurationVar(&o.keep, "poll.keep", defaultKeep, "`time` to show the last answer for while Concourse does not answer")
	fs.Func("required-archs", "count the running workers with the tags gfx= of these `architectures`, with commas between", func(s string) (err error) {
		o.archs, err = parseArchs(s)
		return err
	})
	fs.Process(&o.process)
	if err := fs.Parse(args); err != nil {
		return o, fs, err
	}
	if o.credentials == "" {
		o.credentials = getenv(CredentialsEnv)
	}
	switch {
	case o.credentials == "":
		return o, fs, fmt.Errorf("no --credentials-file given")
	case o.interval < minInterval:
		return o, fs, fmt.Errorf("invalid value %s for flag -poll.interval: at least %s", o.interval, minInterval)
	case o.timeout < minTimeout || o.timeout > o.interval:
		return o, fs, fmt.Errorf("invalid value %s for flag -poll.timeout: from %s to -poll.interval, which is %s", o.timeout, minTimeout, o.interval)
	case o.keep < 0:
		return o, fs, fmt.Errorf("invalid value %s for flag -poll.keep: at least 0s", o.keep)
	}
	return o, fs, nil
}

// maxArchs is far above what one release of ROCm knows.
const maxArchs = 64

// parseArchs takes names that are fit for a label and a tag, each once.
func parseArchs(s string) (archs []string, err error) {
	for arch := range strings.SplitSeq(s, ",") {
		if arch = strings.TrimSpace(arch); arch == "" || clip(arch, 32) != arch || strings.Contains(arch, " ") {
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
