// Package why injects causes of failed builds with the kernel's own parts, and checks the
// verdict: real runc, control groups, network namespaces and disks. The tests need root, runc
// and ip.
package why
