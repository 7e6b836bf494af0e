package driver

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/kube/deviceplugin"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// options holds the command line.
type options struct {
	root       host.Root
	kubelet    string // the kubelet's directory
	config     string // of the wrapper; "" for none
	kubeconfig string // "" in a pod
	node       string // its name in the cluster
	evict      bool   // pods of quarantined GPUs
	replicas   int    // how many claims share a GPU; 1 for none
	sharedGPUs string // which are shared
}

// Run runs the program until ctx is done. It returns the exit status: 0 after a normal end,
// help or version, 1 after a failure, and 2 for a wrong command line.
func Run(ctx context.Context, version string, args []string, stdout, stderr io.Writer) int {
	c := newCommand(version, func(o options) error { return serve(ctx, o, stderr) })
	return commandline.Run(ctx, c, args, stdout, stderr)
}

// newCommand returns the program's command line, which calls run.
func newCommand(version string, run func(o options) error) *cobra.Command {
	var o options
	c := &cobra.Command{Use: "gpu-dra-driver [flags]", Version: version, Args: commandline.NoArgs,
		Long: "Offers this machine's AMD GPUs to claims of its Kubernetes cluster (Dynamic Resource Allocation) as " +
			Name + ", until SIGTERM. A GPU is in one claim or one task at a time.",
		Example: "gpu-dra-driver --evict"}
	fs := c.Flags()
	fs.StringVar((*string)(&o.root), "path.root", "/", "`directory` to read GPUs, descriptions and settings below, as "+
		"the machine's root")
	fs.StringVar(&o.kubelet, "kubelet-dir", "/var/lib/kubelet",
		"the kubelet's `directory` (its --root-dir), which has plugins and plugins_registry")
	fs.StringVar(&o.config, "config", oci.DefaultConfig, "`file` with a unit's GPUs and leases; if it is missing or "+
		"empty, all GPUs are offered")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` with the credentials of the cluster, mode 0600; by default "+
		"those of the pod's account or of the kubelet")
	fs.StringVar(&o.node, "node-name", os.Getenv("NODE_NAME"), "`name` of this node in the cluster; by default "+
		"$NODE_NAME, the kubelet's by its credentials, or the host's")
	fs.BoolVar(&o.evict, "evict", false, "have pods evicted from a GPU that is quarantined (NoExecute)")
	fs.IntVar(&o.replicas, "replicas", 1, "let up to `N` claims of class shared.gpu.amd.com have each shared GPU at the "+
		"same time; the GPU divides its time between them, and nothing limits their memory")
	fs.StringVar(&o.sharedGPUs, "shared-gpus", "all", "`GPUs` that --replicas shares: all, or indexes, PCI addresses and "+
		"unique ids with commas")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var err error
		switch {
		case o.replicas < 1 || o.replicas > deviceplugin.MaxReplicas:
			err = fmt.Errorf("invalid value %d for flag --replicas: want 1 to %d", o.replicas, deviceplugin.MaxReplicas)
		case !filepath.IsAbs(o.kubelet):
			err = fmt.Errorf("invalid value %q for flag --kubelet-dir: want an absolute path", o.kubelet)
		}
		if err != nil {
			return commandline.Wrong(c, err)
		}
		return run(o)
	}
	return c
}

// connect returns a client of the cluster. It refuses named credentials that other users can read.
// The API server lets a kubelet's credentials change the slices of its node and read its claims.
func (o options) connect() (kubernetes.Interface, error) {
	switch {
	case o.kubeconfig == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "": // not in a pod
		i := slices.IndexFunc(deviceplugin.KubeletConfigs, o.root.Exists)
		if i < 0 {
			return nil, fmt.Errorf("cannot find the kubelet's credentials: none of %s; name a file with --kubeconfig",
				strings.Join(deviceplugin.KubeletConfigs, ", "))
		}
		o.kubeconfig = o.root.Path(deviceplugin.KubeletConfigs[i])
	case o.kubeconfig != "":
		st, err := os.Stat(o.kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("cannot read the credentials of the cluster: %w", err)
		}
		if st.Mode().Perm()&0o077 != 0 {
			return nil, fmt.Errorf("cannot use %s: other users can read it; run: chmod 600 %[1]s", o.kubeconfig)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the cluster: %w", err)
	}
	config.UserAgent = "gpu-dra-driver"
	return kubernetes.NewForConfig(config)
}

// nodeName returns the name of this node in the cluster. It can differ from the host's, and a
// kubelet's credentials have it.
func (d *driver) nodeName(ctx context.Context) (string, error) {
	if d.node != "" {
		return d.node, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	review, err := d.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("cannot find the name of this node in the cluster: %w", err)
	}
	if name, is := strings.CutPrefix(review.Status.UserInfo.Username, "system:node:"); is {
		return name, nil
	}
	hostname, err := os.Hostname()
	return strings.ToLower(hostname), err
}

// interval is the time between two looks at the machine.
const interval = time.Second

// serve registers with the kubelet, and does a round each second until ctx is done. Under systemd it
// waits for what is missing and reports it, because a hook of the charm starts it.
func serve(ctx context.Context, o options, log io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := newDriver(o, log)
	d.fail = cancel
	defer func() { d.helper.Stop() }()
	for tick := time.Tick(interval); ; {
		if d.helper == nil {
			err := d.start(ctx)
			if err != nil && os.Getenv("NOTIFY_SOCKET") == "" {
				return err
			}
			d.Report("start", err)
		}
		if d.helper != nil {
			d.turn(ctx)
		}
		d.NotifySystemd("the cluster has the GPUs")
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); cause != context.Canceled {
				return cause
			}
			return nil
		case <-tick:
		}
	}
}

// start connects to the cluster and serves the kubelet.
func (d *driver) start(ctx context.Context) (err error) {
	if d.client, err = d.options.connect(); err != nil {
		return err
	}
	if d.node, err = d.nodeName(ctx); err != nil {
		return err
	}
	data := filepath.Join(d.kubelet, "plugins", Name)
	registry := filepath.Join(d.kubelet, "plugins_registry")
	for _, dir := range []string{data, registry} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
	}
	if deviceplugin.Answers(filepath.Join(data, "dra.sock")) {
		return fmt.Errorf("cannot serve %s: another driver does, on %s; end it, or AMD's own", Name, data)
	}
	d.turn(ctx) // so that the first request finds the GPUs
	helper, err := kubeletplugin.Start(ctx, d, kubeletplugin.DriverName(Name), kubeletplugin.KubeClient(d.client),
		kubeletplugin.NodeName(d.node), kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.RegistrarDirectoryPath(registry))
	if err != nil {
		return fmt.Errorf("cannot serve the kubelet: %w", err)
	}
	d.helper = helper
	return nil
}
