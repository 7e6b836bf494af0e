// Package charm tests the charm as Juju gets it: `make charm` builds it, the
// test unpacks it the way a unit agent does and starts what the agent would
// start. It needs make, no root and no Juju.
package charm
