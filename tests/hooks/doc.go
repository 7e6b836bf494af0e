// Package hooks plays a unit's life through dispatch: its command line with Juju's own
// environment, hook tools in front of an in-memory model, and a throwaway root copied from
// a fixture host. Most stories run it in the test's own process. One story of each kind
// runs the built program, and hook tools that are commands. systemctl, journalctl and
// apt-get are recorded, not run. It needs no root and no network.
package hooks
