package deviceplugin

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// options holds the command line.
type options struct {
	root     host.Root
	kubelet  string // the kubelet's directory
	devices  string // auto, cdi or nodes
	strategy string // single or mixed
	config   string // of the wrapper; "" for none
}

// newCommand returns the program's command line, which calls run.
func newCommand(version string, run func(o options) error) *cobra.Command {
	var o options
	c := &cobra.Command{Use: "gpu-device-plugin [flags]", Version: version, Args: commandline.NoArgs,
		Long: "Offers this machine's AMD GPUs to its kubelet as amd.com/gpu, until SIGTERM. If the machine is a unit " +
			"with gpu-sharing=exclusive, a GPU is in one pod or one task at a time.",
		Example: "gpu-device-plugin --resource-naming-strategy=mixed"}
	fs := c.Flags()
	fs.StringVar((*string)(&o.root), "path.root", "/", "`directory` to read GPUs, descriptions and settings below, as "+
		"the machine's root")
	fs.StringVar(&o.kubelet, "kubelet-dir", "/var/lib/kubelet",
		"the kubelet's `directory` (its --root-dir), which has device-plugins and pod-resources")
	fs.StringVar(&o.devices, "devices", auto, "`how` containers get GPUs: cdi (names of /etc/cdi/amd.json), "+
		"nodes (paths below /dev), or auto, which gives both")
	fs.StringVar(&o.strategy, "resource-naming-strategy", single,
		"`names` of GPUs that are partitioned: single (amd.com/gpu) or mixed (amd.com/cpx_nps4 and its like)")
	fs.StringVar(&o.config, "config", oci.DefaultConfig, "`file` with a unit's GPUs and leases; if it is missing or "+
		"empty, all GPUs are offered and nothing is leased")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return commandline.Wrong(c, err)
		}
		return run(o)
	}
	return c
}

func (o options) check() error {
	switch {
	case !slices.Contains([]string{auto, byCDIName, byNode}, o.devices):
		return fmt.Errorf("invalid value %q for flag --devices: %s", o.devices,
			strings.Join([]string{auto, byCDIName, byNode}, ", "))
	case !slices.Contains([]string{single, mixed}, o.strategy):
		return fmt.Errorf("invalid value %q for flag --resource-naming-strategy: %s, %s", o.strategy, single, mixed)
	case !filepath.IsAbs(o.kubelet):
		return fmt.Errorf("invalid value %q for flag --kubelet-dir: want an absolute path", o.kubelet)
	}
	return nil
}
