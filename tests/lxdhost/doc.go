// Package lxdhost gives tests an LXD daemon in its own namespaces (mounts, network,
// processes) with its own /dev, on a made-up host that has a GPU of AMD and one of NVIDIA:
// sysfs files of a fixture host, and behind their nodes devices of this kernel that anybody
// may open. The machine's own LXD, devices and network are never touched. It contains no
// test.
package lxdhost
