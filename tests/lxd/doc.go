// Package lxd tests lxd-profile.yaml with a real LXD daemon: what a unit's
// container gets on hosts with and without an AMD GPU. The daemon lives in
// namespaces of its own (mounts, network, processes) with a /dev of its own,
// so the machine's LXD, devices and network are never touched. The tests need
// root and are built with the tag e2e; `make e2e` runs them.
package lxd
