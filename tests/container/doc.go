// Package container tests the built runc-amd-wrapper in front of real runcs,
// Debian's and a later one that is built from the module proxy: containers
// shaped as Concourse makes them open device nodes and folders from inside, and
// lease GPUs, while this or that is killed.
//
// The tests carry the build tag e2e and need root, runc, containerd, a C compiler and a
// static busybox (Debian: runc containerd gcc libc6-dev busybox-static). They run in their
// own mount namespace with their own /dev, and never touch the machine's.
package container
