package juju

import (
	"context"
	"fmt"
)

// Network holds the output of network-get for one binding, which is an endpoint's name.
type Network struct {
	BindAddresses    []BindAddress `json:"bind-addresses"`
	EgressSubnets    []string      `json:"egress-subnets"` // CIDR
	IngressAddresses []string      `json:"ingress-addresses"`
}

// BindAddress describes one network interface.
type BindAddress struct {
	MAC       string             `json:"mac-address"`
	Interface string             `json:"interface-name"`
	Addresses []InterfaceAddress `json:"addresses"`
}

// InterfaceAddress describes one address of an interface.
type InterfaceAddress struct {
	Hostname string `json:"hostname"`
	Address  string `json:"value"`
	CIDR     string `json:"cidr"`
}

// taskBridge is the interface that Concourse's worker makes for its containers. Juju lists its
// address like any other, but the address is reachable only from this machine.
const taskBridge = "concourse0"

// Ingress returns the address for others. If it is missing, Ingress returns the bind
// address, or "".
func (n Network) Ingress() string {
	for _, a := range n.IngressAddresses {
		if !n.onTaskBridge(a) {
			return a
		}
	}
	return n.Bind()
}

// onTaskBridge reports whether only the containers of tasks reach the address.
func (n Network) onTaskBridge(address string) bool {
	for _, i := range n.BindAddresses {
		for _, a := range i.Addresses {
			if i.Interface == taskBridge && a.Address == address {
				return true
			}
		}
	}
	return false
}

// Bind returns the address to listen on, or "".
func (n Network) Bind() string {
	for _, i := range n.BindAddresses {
		for _, a := range i.Addresses {
			if i.Interface != taskBridge {
				return a.Address
			}
		}
	}
	return ""
}

// NetworkGet returns the addresses of an endpoint.
func (t *Tools) NetworkGet(ctx context.Context, binding string) (Network, error) {
	var out Network
	err := t.read(ctx, &out, "network-get", "--format=json", binding)
	return out, err
}

// Port names a range of ports in Juju's form: "9401/tcp", "8080-8088/udp", "icmp".
type Port string

// TCP returns one TCP port.
func TCP(port int) Port { return Port(fmt.Sprintf("%d/tcp", port)) }

// OpenPort opens a port when the hook ends.
func (t *Tools) OpenPort(ctx context.Context, p Port) error {
	return t.change(ctx, "open-port", string(p))
}

// ClosePort closes a port when the hook ends.
func (t *Tools) ClosePort(ctx context.Context, p Port) error {
	return t.change(ctx, "close-port", string(p))
}

// OpenedPorts lists the open ports, with the changes of this hook.
func (t *Tools) OpenedPorts(ctx context.Context) ([]Port, error) {
	var out []Port
	err := t.read(ctx, &out, "opened-ports", "--format=json")
	return out, err
}
