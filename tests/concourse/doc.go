// Package concourse runs the charm's units on machines with systemd and the unified
// hierarchy of control groups: the built dispatch runs on them in sandbox Worlds of one
// application with mode=auto, with a real release attached and a real PostgreSQL related.
// Each unit is its own machine: mount, network, process, IPC, UTS and cgroup namespaces, a
// Debian that debootstrap made as its root, systemd as process 1, and one of them in a user
// namespace, as LXD's containers are. Their GPUs are sysfs files of a fixture host, laid
// over the kernel's own, and nodes of other devices of this kernel.
//
// Juju and apt are stand-ins. systemd runs in namespaces of these tests and not
// in those of systemd-nspawn or LXD, which take rights from a machine that a
// real one has; the whole life of a unit in LXD is shown in tests/lxd, and the
// hardening of the web's unit in tests/web.
//
// Privileged tasks of Concourse run in the user namespace only. They get all
// capabilities, and outside of it there may be fewer: this program may itself
// be in a container without CAP_SYS_RESOURCE. So it is not shown here what such a
// task does on a machine; a container like one is there, made by containerd's
// own client, in TestTheUnitsOnSystemd.
//
// The tests carry the build tag e2e and need root, PostgreSQL, debootstrap and
// iproute2, and containerd, runc and busybox-static for what needs no release.
// TestCIForROCm runs the pipelines for ROCm as users set them, from a push to a release.
// What is outside are stand-ins: a server in these tests, and one script that is all
// resource types (testdata/resource.py) in an image of a Debian with Python.
//
// CONCOURSE_RELEASE names the release, its tarball or the unpacked folder;
// without it only what needs none runs. CONCOURSE_NEXT_RELEASE names a release of another
// worker protocol, for the tests of upgrades and of the way back. Nothing outlives the
// tests: all is in one process namespace that ends with them.
package concourse
