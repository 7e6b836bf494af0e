package juju

import (
	"context"
	"fmt"
)

// Network is what network-get tells of one binding (an endpoint's name).
type Network struct {
	BindAddresses    []BindAddress `json:"bind-addresses"`
	EgressSubnets    []string      `json:"egress-subnets"` // CIDR
	IngressAddresses []string      `json:"ingress-addresses"`
}

// BindAddress is one network interface.
type BindAddress struct {
	MAC       string             `json:"mac-address"`
	Interface string             `json:"interface-name"`
	Addresses []InterfaceAddress `json:"addresses"`
}

// InterfaceAddress is one address of an interface.
type InterfaceAddress struct {
	Hostname string `json:"hostname"`
	Address  string `json:"value"`
	CIDR     string `json:"cidr"`
}

// Ingress is the address to tell others; the bind address where Juju knows no
// other, "" where it knows none.
func (n Network) Ingress() string {
	if len(n.IngressAddresses) > 0 {
		return n.IngressAddresses[0]
	}
	return n.Bind()
}

// Bind is the address to listen on, or "".
func (n Network) Bind() string {
	for _, i := range n.BindAddresses {
		for _, a := range i.Addresses {
			return a.Address
		}
	}
	return ""
}

// NetworkGet asks for the addresses of an endpoint.
func (t *Tools) NetworkGet(ctx context.Context, binding string) (Network, error) {
	var out Network
	err := t.read(ctx, &out, "network-get", "--format=json", binding)
	return out, err
}

// Port is a port range as Juju writes it: "9401/tcp", "8080-8088/udp", "icmp".
type Port string

// TCP is the name of one TCP port.
func TCP(port int) Port { return Port(fmt.Sprintf("%d/tcp", port)) }

// OpenPort asks for an open port, from the end of the hook on.
func (t *Tools) OpenPort(ctx context.Context, p Port) error {
	return t.change(ctx, "open-port", string(p))
}

// ClosePort takes an open port back, from the end of the hook on.
func (t *Tools) ClosePort(ctx context.Context, p Port) error {
	return t.change(ctx, "close-port", string(p))
}

// OpenedPorts lists the ports that are open, with what this hook asked for.
func (t *Tools) OpenedPorts(ctx context.Context) ([]Port, error) {
	var out []Port
	err := t.read(ctx, &out, "opened-ports", "--format=json")
	return out, err
}
