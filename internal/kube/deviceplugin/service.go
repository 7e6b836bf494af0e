package deviceplugin

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// service is the server of one resource, as the API wants it: a socket each.
type service struct {
	v1beta1.UnsafeDevicePluginServer
	plugin   *plugin
	resource string
	socket   string

	server *grpc.Server
	made   os.FileInfo // of the socket

	mu         sync.Mutex
	devices    []*v1beta1.Device
	changed    chan struct{} // closed when devices are to be told
	streams    int           // that the kubelet watches by
	registered time.Time     // when it was last told of this service and has not come yet
}

func newService(p *plugin, resource string) *service {
	name := "concourse-" + strings.TrimPrefix(resource, vendorPrefix) + ".sock"
	return &service{plugin: p, resource: resource, socket: filepath.Join(p.socketDir(), name), changed: make(chan struct{})}
}

// listen has a socket there. A kubelet that starts removes all in its folder.
func (s *service) listen() error {
	if st, err := os.Lstat(s.socket); err == nil && s.server != nil && os.SameFile(st, s.made) {
		return nil
	}
	s.stop()
	if answers(s.socket) {
		return fmt.Errorf("cannot listen on %s: another gpu-device-plugin does", s.socket)
	}
	if err := os.Remove(s.socket); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("cannot remove what was left: %w", err)
	}
	l, err := net.Listen("unix", s.socket)
	if err != nil {
		return err
	}
	if err := os.Chmod(s.socket, 0o600); err != nil {
		l.Close()
		return err
	}
	if s.made, err = os.Lstat(s.socket); err != nil {
		l.Close()
		return err
	}
	// Stop waits for streams, so that none counts as the next server's.
	s.server = grpc.NewServer(grpc.WaitForHandlers(true))
	v1beta1.RegisterDevicePluginServer(s.server, s)
	go s.server.Serve(l) // ends by Stop
	return nil
}

// answers reports whether somebody listens on the socket.
func answers(socket string) bool {
	c, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// stop ends the server, which removes its socket.
func (s *service) stop() {
	if s.server != nil {
		s.server.Stop()
	}
	s.server = nil
	s.mu.Lock()
	s.registered = time.Time{} // the next server is another for the kubelet
	s.mu.Unlock()
}

// offer changes what the kubelet is told.
func (s *service) offer(devices []*v1beta1.Device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.EqualFunc(s.devices, devices, func(a, b *v1beta1.Device) bool { return proto.Equal(a, b) }) {
		return
	}
	s.devices = devices
	s.send()
}

// send has the devices told again, with mu held.
func (s *service) send() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// again tells the devices although nothing has changed, so that the kubelet writes its notes.
func (s *service) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send()
}

// unheard reports whether the kubelet does not watch and was not told of the service just
// now. It is told once: of two registrations it would keep both and end the second with
// the first.
func (s *service) unheard(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams == 0 && now.Sub(s.registered) > registerGrace
}

// GetDevicePluginOptions implements the API.
func (s *service) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return s.plugin.traits(), nil
}

// ListAndWatch implements the API: the devices, again each time that they change.
func (s *service) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	s.mu.Lock()
	s.streams++
	s.registered = time.Time{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.streams--
		s.mu.Unlock()
	}()
	for {
		s.mu.Lock()
		devices, changed := s.devices, s.changed
		s.mu.Unlock()
		if err := stream.Send(&v1beta1.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// Allocate implements the API.
func (s *service) Allocate(_ context.Context, r *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	return s.plugin.allocate(r)
}

// PreStartContainer implements the API. It is called before each start of a container,
// also of one whose GPUs were allocated before a reboot.
func (s *service) PreStartContainer(_ context.Context, r *v1beta1.PreStartContainerRequest) (*v1beta1.PreStartContainerResponse, error) {
	return &v1beta1.PreStartContainerResponse{}, s.plugin.start(r.DevicesIds)
}

// GetPreferredAllocation implements the API.
func (s *service) GetPreferredAllocation(_ context.Context, r *v1beta1.PreferredAllocationRequest) (*v1beta1.PreferredAllocationResponse, error) {
	return s.plugin.prefer(r)
}
