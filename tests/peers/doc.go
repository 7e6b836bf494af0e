// Package peers compares the values of rocm-exporter with the values of AMD's own program on
// the same files. It runs under `make e2e`.
//
// rocm-smi reads sysfs alone, so a made tree that is /sys of a mount namespace is enough.
// Other programs are left out: radeontop needs a DRM device, and Debian 12's main archive has
// no nvtop or amd-smi.
package peers
