// Package concourse runs a real Concourse from exactly what the charm wrote on
// its units: the built dispatch runs in sandbox Worlds of one application with
// mode=auto, with a real release attached and a real PostgreSQL related, and
// when it calls systemctl the unit files that it wrote are run for real. Each
// unit is a machine of its own: mount, network, process, IPC, UTS and cgroup
// namespaces, with the World's folders at their true paths and a small stand-in
// for systemd as process 1. The stand-in honours what the units say of users,
// environment files, commands, signals and restarts; the hardening of the web's
// unit is shown in tests/web.
//
// The tests carry the build tag e2e and need root, PostgreSQL, iproute2 and
// iptables (Debian: postgresql iproute2 iptables). CONCOURSE_RELEASE names the
// release, its tarball or the unpacked folder; without it only what needs none
// runs: the charm's own work with a real PostgreSQL. Nothing outlives the tests:
// all is in one process namespace that ends with them.
package concourse
