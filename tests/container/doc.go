// Package container tests the built runc-amd-wrapper in front of a real runc:
// containers shaped as Concourse makes them open device nodes from inside.
//
// The tests carry the build tag e2e and need root, runc and a static busybox
// (Debian: runc, busybox-static). They run in a mount namespace of their own
// with a /dev of their own, and never touch the machine's.
package container
