package deviceplugin

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// kubelet answers a plugin as the kubelet does, by its API and over its sockets. What the
// real one makes of a plugin is shown in tests/kubernetes.
type kubelet struct {
	v1beta1.UnsafeRegistrationServer
	podresources.UnimplementedPodResourcesListerServer
	t   *testing.T
	dir string

	plugins chan *watched // each that registered
	pods    []*podresources.PodResources
	server  *grpc.Server
	conns   []*grpc.ClientConn
}

// watched is a plugin that registered.
type watched struct {
	v1beta1.DevicePluginClient
	request *v1beta1.RegisterRequest
	options *v1beta1.DevicePluginOptions
	lists   chan map[string]string // health by id; closed when the stream ends
}

func newKubelet(t *testing.T) *kubelet {
	dir, err := os.MkdirTemp("", "kl") // a socket's path has at most 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	k := &kubelet{t: t, dir: dir, plugins: make(chan *watched, 10)}
	for _, sub := range []string{"device-plugins", "pod-resources"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o750))
	}
	return k
}

// start is a kubelet that starts: it removes all sockets that others left.
func (k *kubelet) start() {
	old, err := filepath.Glob(filepath.Join(k.dir, "*/*"))
	require.NoError(k.t, err)
	for _, path := range old {
		require.NoError(k.t, os.Remove(path))
	}
	k.server = grpc.NewServer()
	v1beta1.RegisterRegistrationServer(k.server, k)
	podresources.RegisterPodResourcesListerServer(k.server, k)
	for _, socket := range []string{"device-plugins/kubelet.sock", "pod-resources/kubelet.sock"} {
		l, err := net.Listen("unix", filepath.Join(k.dir, socket))
		require.NoError(k.t, err)
		go k.server.Serve(l)
	}
	k.t.Cleanup(k.stop)
}

// stop is a kubelet that ends.
func (k *kubelet) stop() {
	k.server.Stop()
	for _, c := range k.conns {
		c.Close()
	}
	k.conns = nil
}

func (k *kubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return &podresources.ListPodResourcesResponse{PodResources: k.pods}, nil
}

// Register asks back before it answers, as the kubelet does.
func (k *kubelet) Register(ctx context.Context, r *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	conn, err := dial(filepath.Join(k.dir, "device-plugins", r.Endpoint))
	if err != nil {
		return nil, err
	}
	k.conns = append(k.conns, conn)
	w := &watched{DevicePluginClient: v1beta1.NewDevicePluginClient(conn), request: r, lists: make(chan map[string]string, 100)}
	if w.options, err = w.GetDevicePluginOptions(ctx, &v1beta1.Empty{}); err != nil {
		return nil, err
	}
	stream, err := w.ListAndWatch(context.Background(), &v1beta1.Empty{})
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(w.lists)
		for {
			list, err := stream.Recv()
			if err != nil {
				return
			}
			health := map[string]string{}
			for _, d := range list.Devices {
				health[d.ID] = d.Health
			}
			w.lists <- health
		}
	}()
	k.plugins <- w
	return &v1beta1.Empty{}, nil
}
