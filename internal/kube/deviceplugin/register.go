package deviceplugin

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A kubelet that was told of a service watches it at once. It is told again where it does
// not come in this time.
const registerGrace = 10 * time.Second

// askTime bounds a question to the kubelet, which asks back before it answers.
const askTime = 5 * time.Second

// maxAnswer is what the kubelet's own clients take, in bytes.
const maxAnswer = 16 << 20

// dial is a connection to a socket of the kubelet's. It is not kept: one that failed
// would wait longer each time until it tries again.
func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
}

// register tells the kubelet of a service that listens.
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
	s.registered = s.plugin.now() // before: it may come before it answers
	s.mu.Unlock()
	_, err = v1beta1.NewRegistrationClient(conn).Register(ctx, &v1beta1.RegisterRequest{
		Version: v1beta1.Version, Endpoint: filepath.Base(s.socket), ResourceName: s.resource, Options: s.plugin.traits()})
	if err != nil {
		s.mu.Lock()
		s.registered = time.Time{}
		s.mu.Unlock()
		return fmt.Errorf("cannot register %s at %s: %w", s.resource, socket, err)
	}
	fmt.Fprintf(s.plugin.log, "registered %s at %s\n", s.resource, socket)
	return nil
}

// rival reports AMD's own plugin, whose socket has this name. The kubelet would take turns
// between two that offer one resource.
func (s *service) rival() error {
	socket := filepath.Join(filepath.Dir(s.socket), strings.ReplaceAll(s.resource, "/", "_"))
	if answers(socket) {
		return fmt.Errorf("cannot offer %s: AMD's own device plugin does, on %s; take one of them away", s.resource, socket)
	}
	return nil
}
