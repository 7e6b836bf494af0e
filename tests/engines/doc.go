// Package engines tests the built dispatch and runc-amd-wrapper with container engines as
// Debian has them: Docker by --runtime, Podman by CDI, by --runtime and without root, and
// containerd by ctr; and with nerdctl and CRI-O, which Debian does not have, built from the
// module proxy (crio/ below it is its own module). Containers open stand-ins of GPUs from
// inside, and what was configured is taken back byte for byte.
//
// The tests carry the build tag e2e and need root, docker.io, podman, crun, uidmap,
// containerd and a static busybox. They run in their own namespaces, with a /dev, /run and
// their own /etc, and reach no network.
package engines
