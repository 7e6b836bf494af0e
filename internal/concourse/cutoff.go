package concourse

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// CutOff returns the command that ends the established connections from addr, an IP
// address, to the TSA of this machine. Neither side gets a notice (ss(8), --kill). The web
// does not end them when a worker's key is removed, because it checks keys only when a
// worker connects. Remove the key and reload the web first, or the worker reconnects within
// 5 seconds. A worker that is still trusted registers again.
//
// The command needs CAP_NET_ADMIN in the network namespace, which root of an LXD container
// has, and a kernel with CONFIG_INET_DIAG_DESTROY. Without them ss reports an error on
// stderr but exits 0, so Disconnect checks the result itself.
func CutOff(addr string) host.Command {
	return host.Command{Argv: append([]string{"ss", "--no-header", "--tcp", "--numeric", "--kill"}, toTSA(addr)...),
		Deadline: 30 * time.Second}
}

// toTSA returns the filter for ss.
func toTSA(addr string) []string {
	if a, err := netip.ParseAddr(addr); err == nil {
		addr = a.Unmap().WithZone("").String()
		if a.Unmap().Is6() {
			addr = "[" + addr + "]"
		}
	}
	return []string{"state", "established", "dst", addr, "sport", "=", ":" + strconv.Itoa(wellknown.TSAPort)}
}

// Disconnect ends the connections from Addr to the TSA. It is always due: until the web has
// read the keys again, a worker that is not connected may connect at any moment. A failure
// is tolerated, because such a worker must reconnect after at most 4 hours.
type Disconnect struct {
	Addr string // IP address
	Why  string // "gpu/0 has gone"
}

// Diff implements plan.Resource.
func (d Disconnect) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if _, err := netip.ParseAddr(d.Addr); err != nil {
		return nil, fmt.Errorf("cannot end connections of %q: it is not an IP address", d.Addr)
	}
	return plan.Plan{{Op: "end the connections of " + d.Addr + " to the TSA", Why: d.Why, Tolerate: true,
		Do: func(ctx context.Context) error {
			if _, err := h.Run(ctx, CutOff(d.Addr)); err != nil {
				return d.remark(err)
			}
			if connected, err := Connected(ctx, h, d.Addr); err != nil {
				return d.remark(err)
			} else if connected {
				return d.remark(errors.New("they are still there after ss --kill, " +
					"which needs CAP_NET_ADMIN and a kernel with CONFIG_INET_DIAG_DESTROY"))
			}
			return nil
		}}}, nil
}

// Expel removes a worker that was disconnected from the web's list, so that its builds end
// now and not minutes later. It is always due. A failure is tolerated.
type Expel struct {
	API  *API
	Name string // of the worker
	Why  string
}

// Diff implements plan.Resource.
func (e Expel) Diff(context.Context, host.Host) (plan.Plan, error) {
	return plan.Plan{{Op: ExpelOp(e.Name), Why: e.Why, Tolerate: true,
		Do: func(ctx context.Context) error { return e.API.Remove(ctx, e.Name) }}}, nil
}

// ExpelOp returns the Op of the step that expels a worker.
func ExpelOp(name string) string { return "remove worker " + name + " from the web's list" }

// Connected reports whether an address has a connection to the TSA of this machine.
func Connected(ctx context.Context, h host.Host, addr string) (bool, error) {
	out, err := h.Run(ctx, host.Command{Argv: append([]string{"ss", "--no-header", "--tcp", "--numeric"},
		toTSA(addr)...),
		ReadOnly: true, Deadline: 30 * time.Second})
	return strings.TrimSpace(string(out)) != "", err
}

func (d Disconnect) remark(err error) error {
	return fmt.Errorf("the worker at %s keeps its connection until it restarts: %w", d.Addr, err)
}
