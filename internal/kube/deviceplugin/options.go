package deviceplugin

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

const intro = "Offers this machine's AMD GPUs to its kubelet as amd.com/gpu, until SIGTERM. Where the machine is a " +
	"unit with gpu-sharing=exclusive, no pod and no task have one GPU at a time."

// options holds the command line.
type options struct {
	root     host.Root
	kubelet  string // the kubelet's directory
	devices  string // auto, cdi or nodes
	strategy string // single or mixed
	config   string // of the wrapper; "" for none
	version  bool
}

// errHelp means that the help was requested and printed.
var errHelp = errors.New("help was asked for")

// parse reads the command line. It prints errors and the help itself.
func parse(args []string, stdout, stderr io.Writer) (o options, err error) {
	fs := commandline.New("gpu-device-plugin", &o.version)
	root := fs.String("path.root", "/", "`directory` to read GPUs, descriptions and settings below, as the "+
		"machine's root")
	fs.StringVar(&o.kubelet, "kubelet-dir", "/var/lib/kubelet",
		"the kubelet's `directory` (its --root-dir), which has device-plugins and pod-resources")
	fs.StringVar(&o.devices, "devices", auto, "`how` containers get GPUs: cdi (names of /etc/cdi/amd.json), "+
		"nodes (paths below /dev), or auto, which gives both")
	fs.StringVar(&o.strategy, "resource-naming-strategy", single,
		"`names` of GPUs that are partitioned: single (amd.com/gpu) or mixed (amd.com/cpx_nps4 and its like)")
	fs.StringVar(&o.config, "config", oci.DefaultConfig, "`file` that tells a unit's GPUs and leases; where it "+
		"is missing or empty all GPUs are offered and nothing is leased")
	err = commandline.FlagError(fs, fs.Parse(args))
	if errors.Is(err, flag.ErrHelp) {
		help := commandline.Help{Usage: []string{"gpu-device-plugin [flags]"}, Text: intro, Flags: fs,
			Examples: []string{"gpu-device-plugin --resource-naming-strategy=mixed"}}
		return o, errors.Join(errHelp, help.Write(stdout))
	}
	o.root = host.Root(*root)
	switch {
	case err != nil:
	case fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case !slices.Contains([]string{auto, byCDIName, byNode}, o.devices):
		err = fmt.Errorf("invalid value %q for flag --devices: %s", o.devices,
			strings.Join([]string{auto, byCDIName, byNode}, ", "))
	case !slices.Contains([]string{single, mixed}, o.strategy):
		err = fmt.Errorf("invalid value %q for flag --resource-naming-strategy: %s, %s", o.strategy, single, mixed)
	case !filepath.IsAbs(o.kubelet):
		err = fmt.Errorf("invalid value %q for flag --kubelet-dir: want an absolute path", o.kubelet)
	}
	if err != nil {
		fmt.Fprintf(stderr, "gpu-device-plugin: %v; see gpu-device-plugin --help\n", err)
	}
	return o, err
}
