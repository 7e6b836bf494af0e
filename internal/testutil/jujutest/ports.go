package jujutest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// OpenPort describes an open port range of the unit, for one endpoint or for all ("").
type OpenPort struct {
	Endpoint string
	From, To int // -1 for icmp
	Protocol string
}

// String returns the range as the tools print it.
func (p OpenPort) String() string {
	switch {
	case p.Protocol == "icmp":
		return "icmp"
	case p.From == p.To:
		return fmt.Sprintf("%d/%s", p.From, p.Protocol)
	}
	return fmt.Sprintf("%d-%d/%s", p.From, p.To, p.Protocol)
}

func parsePort(s string) (p OpenPort, err error) {
	s = strings.ToLower(s)
	ports, protocol, ok := strings.Cut(s, "/")
	if !ok {
		protocol = "tcp"
	}
	bounds := strings.Split(ports, "-")
	if len(bounds) > 2 {
		return p, usagef("invalid port range %q", ports)
	}
	if ports == "icmp" {
		return OpenPort{From: -1, To: -1, Protocol: "icmp"}, nil
	}
	var n [2]int
	for k, b := range bounds {
		if n[k], err = strconv.Atoi(b); err != nil {
			return p, usagef("invalid port %q: %v", b, err)
		}
	}
	if len(bounds) == 1 {
		n[1] = n[0]
	}
	p = OpenPort{From: n[0], To: n[1], Protocol: protocol}
	switch {
	case protocol == "icmp":
		return p, usagef("protocol \"icmp\" doesn't support any ports; got \"%d\"", p.From)
	case protocol != "tcp" && protocol != "udp":
		return p, usagef("invalid protocol %q, expected \"tcp\", \"udp\", or \"icmp\"", protocol)
	case p.From > p.To:
		return p, usagef("invalid port range %s", p)
	case p.From < 0 || p.To > 65535:
		return p, usagef("port range bounds must be between 0 and 65535, got %d-%d", p.From, p.To)
	}
	return p, nil
}

func port(i *invocation, do func(*Context, OpenPort) error) error {
	if len(i.args) == 0 {
		return usagef("no port or range specified")
	}
	p, err := parsePort(i.args[0])
	if err != nil {
		return err
	}
	if err := i.noMore(1); err != nil {
		return err
	}
	i.deprecatedFormat()
	for _, endpoint := range strings.Split(i.flags["endpoints"], ",") {
		p.Endpoint = strings.TrimSpace(endpoint)
		if err := do(i.Context, p); err != nil {
			return err
		}
	}
	return nil
}

// conflict returns an error if an open range overlaps p without being equal.
func (c *Context) conflict(verb string, p OpenPort) error {
	for _, o := range c.book.Ports {
		same := o.From == p.From && o.To == p.To
		if o.Protocol != p.Protocol || same || o.To < p.From || p.To < o.From {
			continue
		}
		text := fmt.Sprintf("cannot %s %v (unit %q): port range conflicts with %v (unit %q)", verb, p, c.model.Unit,
			o, c.model.Unit)
		if !slices.Contains(c.model.Ports, o) {
			text += " requested earlier"
		}
		return fmt.Errorf("%s", text)
	}
	return nil
}

func (c *Context) openPort(p OpenPort) error {
	if err := c.conflict("open", p); err != nil || slices.Contains(c.book.Ports, p) {
		return err
	}
	c.book.Ports = append(c.book.Ports, p)
	return nil
}

func (c *Context) closePort(p OpenPort) error {
	if err := c.conflict("close", p); err != nil {
		return err
	}
	c.book.Ports = slices.DeleteFunc(c.book.Ports, func(o OpenPort) bool { return o == p })
	return nil
}

// openedPorts includes the hook's own changes, contrary to the tool's help: Juju 3.6.11
// merges its pending changes (portRangeChangeRecorder).
func openedPorts(i *invocation) error {
	if err := i.noMore(0); err != nil {
		return err
	}
	ports := slices.Clone(i.book.Ports)
	slices.SortFunc(ports, func(a, b OpenPort) int {
		return cmp.Or(strings.Compare(a.Protocol, b.Protocol), a.From-b.From, a.To-b.To,
			strings.Compare(a.Endpoint, b.Endpoint))
	})
	out := []string{}
	endpoints := map[string][]string{}
	for _, p := range ports {
		if _, seen := endpoints[p.String()]; !seen {
			out = append(out, p.String())
		}
		endpoints[p.String()] = append(endpoints[p.String()], p.Endpoint)
	}
	if i.isSet("endpoints") {
		for k, p := range out {
			names := strings.Join(endpoints[p], ", ")
			if endpoints[p][0] == "" {
				names = "*"
			}
			out[k] = fmt.Sprintf("%s (%s)", p, names)
		}
	}
	return i.print(out)
}
