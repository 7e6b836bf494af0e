// Package exporter implements the program rocm-exporter, which serves the state of GPUs to
// Prometheus, to people and to other programs, and writes what needs more rights than that
// into files. It needs no ROCm, no vendor library and no agent.
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
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

// Run runs a command of the program until SIGTERM or SIGINT and returns its exit status.
// With flags alone it serves, as other exporters do. version appears in --version and
// rocm_exporter_build_info.
func Run(version string, args []string, stdout, stderr io.Writer) int {
	about := []string{"-h", "--help", "--version"}
	if len(args) > 0 && strings.HasPrefix(args[0], "-") && !slices.Contains(about, args[0]) {
		args = append([]string{"serve"}, args...)
	}
	return commandline.Run(context.Background(), Root(version), args, stdout, stderr)
}

// Root returns the tree of the program's commands, for Run and for man pages.
func Root(version string) *cobra.Command {
	root := commandline.Group(&cobra.Command{Use: "rocm-exporter", Version: version,
		Short: "state and health of GPUs for Prometheus, and a status page",
		Long: "Serves metrics of this machine's AMD and NVIDIA GPUs to Prometheus. It needs no ROCm. With flags alone it " +
			"runs serve.\n\n" +
			"serve needs no privilege if other processes do what needs root: write-gpus reads the GPUs, scans " +
			"processes and runs nvidia-smi, and record-tasks records tasks of Concourse. Each command ends with its " +
			"parent process."})
	serve, _ := newServe(version)
	root.AddCommand(serve, newWriteGPUs(), newRecordTasks())
	return root
}

// place holds the flags that all commands have.
type place struct{ root string }

func (p *place) declare(fs *pflag.FlagSet) {
	fs.StringVar(&p.root, "path.root", "/", "`directory` to read as the machine's root")
}

// start runs a command on the machine below the root until it is stopped.
func (p *place) start(c *cobra.Command, f *metricsserver.Flags,
	run func(stop context.Context, s *metricsserver.Server, root host.Root) error) error {
	return f.Run(c, func(stop context.Context, s *metricsserver.Server) error {
		if os.Getenv("GOMAXPROCS") == "" {
			// Waking other processors costs more than a scrape, and the machine's own work
			// needs them. Readings still wait in the kernel in parallel, each in its own
			// thread.
			runtime.GOMAXPROCS(1)
		}
		root := host.Root(p.root)
		if _, err := root.ReadDir("/"); err != nil {
			return fmt.Errorf("cannot read --path.root: %w", err)
		}
		return run(stop, s, root)
	})
}

// declareVendor declares the flag for the vendors of GPUs, which are all by default.
func declareVendor(fs *pflag.FlagSet, vendors *[]gpu.Vendor) {
	*vendors = gpu.Vendors()
	fs.Func("vendor", "`vendor` of the GPUs: amd, nvidia, all or none (default all)", func(name string) error {
		*vendors = nil
		for _, v := range gpu.Vendors() {
			if name == "all" || name == string(v) {
				*vendors = append(*vendors, v)
			}
		}
		if *vendors == nil && name != "none" {
			return fmt.Errorf("want amd, nvidia, all or none")
		}
		return nil
	})
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
