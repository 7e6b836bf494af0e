// Package hang runs the built dispatch and rocm-exporter on a machine with a GPU whose
// files in sysfs hang or fail: they are on a FUSE file system, in which a process that
// reads such a file waits in state D and no signal ends it, as with a driver that hangs.
//
// The tests carry the build tag e2e and need root, /dev/fuse and ip (Debian: iproute2). The
// machine is a folder that is their root; they have their own network.
package hang
