// Package engines tests the built dispatch and runc-amd-wrapper with container engines as
// Debian has them: Docker by --runtime, Podman by CDI, by --runtime and without root, and
// containerd by ctr; and with nerdctl and CRI-O, which Debian does not have, built from the
// module proxy (crio/ below it is a module of its own). Containers open stand-ins of GPUs
// from inside, and what was configured is taken back byte for byte.
//
// The tests carry the build tag e2e and need root, docker.io, podman, crun, uidmap,
// containerd and a static busybox. They run in namespaces of their own, with a /dev, /run
// and /etc of their own, and reach no network.
package engines
