// Package scripts tests the scripts that people run on their own machines:
// pass-gpu.sh and deploy-test.sh in scripts/. Here juju, lxc, fly and curl are
// stand-ins on PATH that answer from files and keep what they were called with;
// with the tag e2e pass-gpu.sh changes containers of a real, private LXD.
package scripts
