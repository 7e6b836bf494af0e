// Package hooks plays a unit's life through the built dispatch: the real
// program with Juju's own environment, hook tools that are real commands in
// front of an in-memory model, and a throwaway root copied from a fixture
// host. systemctl, journalctl and apt-get are recorded, not run. It needs no
// root and no network, and it never looks into the program.
package hooks
