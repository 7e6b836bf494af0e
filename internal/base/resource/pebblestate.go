package resource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"time"

	"github.com/canonical/pebble/client"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// PebbleState has the states that a Pebble daemon reports for its services and checks, by
// name.
type PebbleState struct {
	Services map[string]string // active, backoff, error, inactive
	Checks   map[string]string // up, down, inactive
}

// errNoPebble reports that no daemon listens on the socket.
var errNoPebble = errors.New("Pebble is not running")

// pebbleDeadline bounds both requests together.
const pebbleDeadline = 5 * time.Second

// PebbleServices queries the daemon behind the socket, a path of the machine. The error is
// errNoPebble if the socket is missing or no daemon listens on it.
func PebbleServices(ctx context.Context, r host.Root, socket string) (PebbleState, error) {
	// The client itself would try for 5 s before it reports a missing socket, or a socket
	// of a killed daemon.
	st, err := r.Lstat(socket)
	if errors.Is(err, fs.ErrNotExist) {
		return PebbleState{}, fmt.Errorf("%w: %s is missing", errNoPebble, socket)
	}
	if err != nil {
		return PebbleState{}, fmt.Errorf("cannot ask Pebble: %w", err)
	}
	if st.Mode()&fs.ModeSocket == 0 {
		return PebbleState{}, fmt.Errorf("%w: %s is not a socket", errNoPebble, socket)
	}
	ctx, cancel := context.WithTimeout(ctx, pebbleDeadline)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", r.Path(socket))
	if errors.Is(err, unix.ECONNREFUSED) {
		return PebbleState{}, fmt.Errorf("%w: no process listens on %s", errNoPebble, socket)
	}
	if err != nil {
		return PebbleState{}, fmt.Errorf("cannot ask Pebble: %w", err)
	}
	conn.Close()
	c, err := client.New(&client.Config{Socket: r.Path(socket), DisableKeepAlive: true})
	if err != nil {
		return PebbleState{}, fmt.Errorf("cannot ask Pebble: %w", err)
	}
	var services []client.ServiceInfo
	var checks []client.CheckInfo
	if err := pebbleGet(ctx, c, "/v1/services", &services); err != nil {
		return PebbleState{}, err
	}
	if err := pebbleGet(ctx, c, "/v1/checks", &checks); err != nil {
		return PebbleState{}, err
	}
	s := PebbleState{Services: map[string]string{}, Checks: map[string]string{}}
	for _, v := range services {
		s.Services[v.Name] = string(v.Current)
	}
	for _, v := range checks {
		s.Checks[v.Name] = string(v.Status)
	}
	return s, nil
}

// pebbleGet sends the client's request with a deadline, which its methods Services and
// Checks do not accept.
func pebbleGet(ctx context.Context, c *client.Client, path string, into any) error {
	resp, err := c.Requester().Do(ctx, &client.RequestOptions{Type: client.SyncRequest, Method: "GET", Path: path})
	if err != nil {
		return fmt.Errorf("cannot ask Pebble for %s: %w", path, err)
	}
	if err := resp.DecodeResult(into); err != nil {
		return fmt.Errorf("cannot ask Pebble for %s: %w", path, err)
	}
	return nil
}
