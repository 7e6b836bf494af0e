package deviceplugin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// started is a plugin for the machine below r, with its log, and the kubelet.
func started(t *testing.T, r host.Root, change func(*options)) (*plugin, *kubelet, *bytes.Buffer) {
	k := newKubelet(t)
	o := options{root: r, kubelet: k.dir, devices: auto, strategy: single, replicas: 1, config: "/etc/concourse-ci-machine/wrapper.json"}
	if change != nil {
		change(&o)
	}
	log := &bytes.Buffer{}
	p := newPlugin(o, log)
	t.Cleanup(p.close)
	return p, k, log
}

func turn(t *testing.T, p *plugin) {
	t.Helper()
	require.NoError(t, p.turn(context.Background()))
}

func TestPluginRegistersWhatTheMachineHas(t *testing.T) {
	p, k, log := started(t, hosttest.ManyGPUs(t, 2), nil)
	k.start()
	turn(t, p)
	require.Empty(t, p.Trouble(), log)
	w := <-k.plugins
	require.Equal(t, "amd.com/gpu", w.request.ResourceName)
	require.Equal(t, "v1beta1", w.request.Version)
	require.True(t, w.options.GetPreferredAllocationAvailable)
	require.True(t, w.options.PreStartRequired)
	require.Equal(t, map[string]string{"0000:04:00.0": v1beta1.Healthy, "0000:0b:00.0": v1beta1.Healthy}, <-w.lists)
	st, err := os.Stat(filepath.Join(k.dir, "device-plugins", w.request.Endpoint))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
	turn(t, p)
	require.Empty(t, k.plugins, "a kubelet that watches is not told again")

	p.close()
	_, open := <-w.lists
	require.False(t, open, "the kubelet sees the plugin go")
	_, err = os.Stat(filepath.Join(k.dir, "device-plugins", w.request.Endpoint))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestPluginWaitsForTheKubeletsFolder(t *testing.T) {
	for name, prepare := range map[string]func(folder string) error{
		"missing":           func(string) error { return nil },
		"a file instead":    func(folder string) error { return os.WriteFile(folder, nil, 0o600) },
		"a link to nowhere": func(folder string) error { return os.Symlink("nowhere", folder) },
	} {
		t.Run(name, func(t *testing.T) {
			p, k, _ := started(t, hosttest.ManyGPUs(t, 1), nil)
			folder := filepath.Join(k.dir, "device-plugins")
			require.NoError(t, os.Remove(folder))
			require.NoError(t, prepare(folder))
			turn(t, p)
			require.Equal(t, "no kubelet has run here: missing "+folder, p.Trouble())
		})
	}
}

// Of what systemd takes line by line, a reason has one.
func TestSystemdStatusShowsWhetherGPUsAreRegistered(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	t.Setenv("NOTIFY_SOCKET", socket)
	for trouble, want := range map[string]string{
		"":                      "READY=1\nWATCHDOG=1\nERRNO=0\nSTATUS=the kubelet has the GPUs",
		"no kubelet\nMAINPID=1": "READY=1\nWATCHDOG=1\nERRNO=107\nSTATUS=no kubelet; MAINPID=1",
	} {
		j := NewJournal(io.Discard, "pods")
		if trouble != "" {
			j.Report("kubelet", errors.New(trouble))
		}
		j.NotifySystemd("the kubelet has the GPUs")
		text := make([]byte, 1000)
		n, err := l.Read(text)
		require.NoError(t, err)
		require.Equal(t, want, string(text[:n]))
	}
}

// A kubelet must not send pods to the integrated GPU while the card is missing.
func TestIntegratedGPUBesideACardIsNotOffered(t *testing.T) {
	r := hosttest.ManyGPUs(t, 1)
	hosttest.AddIntegrated(t, r)
	p, _, _ := started(t, r, nil)
	turn(t, p)
	require.Len(t, p.seen.devices, 1)
	require.Equal(t, gpu0, p.seen.devices[0].PCI)
	for _, gone := range []string{"/sys/bus/pci/devices/" + gpu0, "/sys/class/drm/card1", "/sys/class/drm/renderD128"} {
		require.NoError(t, os.Remove(r.Path(gone)))
	}
	turn(t, p)
	require.Empty(t, p.seen.devices)
}
