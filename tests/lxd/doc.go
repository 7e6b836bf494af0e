// Package lxd tests the charm with a real LXD daemon: what lxd-profile.yaml gives a unit's
// container on hosts with and without an AMD GPU, and the whole life of a unit, from the
// packed charm to the removed unit, in a container with systemd with a host that has a GPU
// of AMD and one of NVIDIA.
//
// The daemon lives in its own namespaces (mounts, network, processes) with its own /dev, so
// the machine's LXD, devices and network are never touched. Hooks and actions are run by
// Juju's own agent code, built from tests/juju and started in the container: it links Juju,
// which is AGPL-3.0, and these tests do not. The host's GPUs are sysfs files of a fixture
// host, and behind their nodes are devices of this kernel that anybody may open; LXD,
// systemd, apt, containerd and runc are real, and the program concourse of the release is a
// stand-in.
//
// The tests need root and are built with the tag e2e; `make e2e` runs them. The
// image, a Debian made by debootstrap from this machine's mirror, or what TEST_BASE names, is kept in the
// user's cache folder.
package lxd
