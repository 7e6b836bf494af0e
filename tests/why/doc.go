// Package why injects causes of failed builds and checks the verdict. world_test.go has a
// machine of files, on which the recorder looks with a clock of the test: each cause is a
// list of changes to these files. The tests with the build tag e2e inject causes with the
// kernel's own parts: real runc, control groups, network namespaces and disks. They need
// root, runc and ip.
package why
