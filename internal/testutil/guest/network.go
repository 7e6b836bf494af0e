package guest

// Gateway is the address of this side in the machines' network, a /24.
const Gateway = "10.99.0.1"

const bridge = "br0"

// MakeNetwork makes the network of the machines in this network namespace, and mounts proc
// and sysfs for it in this mount namespace. Both namespaces must be separate ones.
func MakeNetwork() error {
	for _, argv := range [][]string{
		{"mount", "-t", "proc", "proc", "/proc"},
		{"mount", "-t", "sysfs", "sysfs", "/sys"},
		{"ip", "link", "set", "lo", "up"},
		{"ip", "link", "add", bridge, "type", "bridge"},
		{"ip", "address", "add", Gateway + "/24", "dev", bridge},
		{"ip", "link", "set", bridge, "up"},
	} {
		if err := Command(argv...); err != nil {
			return err
		}
	}
	return nil
}
