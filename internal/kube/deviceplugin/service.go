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
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// service serves one resource. The API requires a socket for each.
type service struct {
	v1beta1.UnsafeDevicePluginServer
	plugin   *plugin
	resource string
	socket   string

	server *grpc.Server
	made   os.FileInfo // of the socket

	mu         sync.Mutex
	devices    []*v1beta1.Device
	changed    chan struct{} // closed when devices must be sent
	streams    int           // from the kubelet
	registered time.Time     // time of a registration that the kubelet has not followed yet
}

func newService(p *plugin, resource string) *service {
	name := "concourse-" + strings.TrimPrefix(resource, vendorPrefix) + ".sock"
	return &service{plugin: p, resource: resource, socket: filepath.Join(p.socketDir(), name),
		changed: make(chan struct{})}
}

// listen makes the socket if it is missing. A kubelet that starts removes all files in its
// folder.
func (s *service) listen() error {
	if st, err := os.Lstat(s.socket); err == nil && s.server != nil && os.SameFile(st, s.made) {
		return nil
	}
	s.stop()
	if Answers(s.socket) {
		return fmt.Errorf("cannot listen on %s: another gpu-device-plugin does", s.socket)
	}
	if err := os.Remove(s.socket); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("cannot remove the rest: %w", err)
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
	// Stop waits for streams, so that none is counted for the next server.
	s.server = grpc.NewServer(grpc.WaitForHandlers(true))
	v1beta1.RegisterDevicePluginServer(s.server, s)
	go s.server.Serve(l) // ends by Stop
	return nil
}

// stop ends the server, which removes its socket.
func (s *service) stop() {
	if s.server != nil {
		s.server.Stop()
	}
	s.server = nil
	s.mu.Lock()
	s.registered = time.Time{} // the next server is new to the kubelet
	s.mu.Unlock()
}

// offer changes the devices for the kubelet.
func (s *service) offer(devices []*v1beta1.Device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.EqualFunc(s.devices, devices, func(a, b *v1beta1.Device) bool { return proto.Equal(a, b) }) {
		return
	}
	s.devices = devices
	s.send()
}

// send makes all streams send the devices. The caller holds mu.
func (s *service) send() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// sendAgain sends the devices without a change, so that the kubelet writes its notes.
func (s *service) sendAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send()
}

// needsRegistration reports whether the kubelet neither watches the service nor was just
// told about it. It must be registered once, because the kubelet would keep two
// registrations and end the second with the first.
func (s *service) needsRegistration(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams == 0 && now.Sub(s.registered) > registerGrace
}

// GetDevicePluginOptions implements the API.
func (s *service) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return s.plugin.pluginOptions(), nil
}

// ListAndWatch implements the API. It sends the devices now and after each change.
func (s *service) ListAndWatch(_ *v1beta1.Empty,
	stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
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

// PreStartContainer implements the API. The kubelet calls it before each start of a
// container, including one with GPUs that were allocated before a reboot.
func (s *service) PreStartContainer(_ context.Context,
	r *v1beta1.PreStartContainerRequest) (*v1beta1.PreStartContainerResponse, error) {
	return &v1beta1.PreStartContainerResponse{}, s.plugin.checkStart(r.DevicesIds)
}

// GetPreferredAllocation implements the API.
func (s *service) GetPreferredAllocation(_ context.Context,
	r *v1beta1.PreferredAllocationRequest) (*v1beta1.PreferredAllocationResponse, error) {
	return s.plugin.prefer(r)
}

// registerGrace is the wait before a repeated registration. The kubelet connects to a
// registered service at once.
const registerGrace = 10 * time.Second

// askTime bounds a request to the kubelet, which calls the plugin before it answers.
const askTime = 5 * time.Second

// maxAnswer is the limit of the kubelet's own clients, in bytes.
const maxAnswer = 16 << 20

// dial connects to a socket of the kubelet. The connection is not kept, because retries of
// a failed one wait longer each time.
func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
}

// register registers a listening service with the kubelet.
func (s *service) register(ctx context.Context) error {
	socket := filepath.Join(filepath.Dir(s.socket), filepath.Base(v1beta1.KubeletSocket))
	conn, err := dial(socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s.mu.Lock()
	s.registered = s.plugin.now() // before, because the kubelet may connect before it answers
	s.mu.Unlock()
	_, err = v1beta1.NewRegistrationClient(conn).Register(ctx, &v1beta1.RegisterRequest{
		Version: v1beta1.Version, Endpoint: filepath.Base(s.socket), ResourceName: s.resource,
		Options: s.plugin.pluginOptions()})
	if err != nil {
		s.mu.Lock()
		s.registered = time.Time{}
		s.mu.Unlock()
		return fmt.Errorf("cannot register %s at %s: %w", s.resource, socket, err)
	}
	s.plugin.Print("registered " + s.resource + " at " + socket)
	return nil
}

// checkRival reports AMD's own plugin, which has a socket with this name. The kubelet would
// alternate between two plugins for one resource.
func (s *service) checkRival() error {
	socket := filepath.Join(filepath.Dir(s.socket), strings.ReplaceAll(s.resource, "/", "_"))
	if Answers(socket) {
		return fmt.Errorf("cannot offer %s: AMD's own device plugin does, on %s; take one of them away",
			s.resource, socket)
	}
	return nil
}
