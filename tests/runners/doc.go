// Package runners tests the hooks of CI runners with the built gpukit, its lease service and
// stand-in GPUs. Most runners can't run here. A harness calls the hooks as the runner's source
// does, in a process with the name of the runner's own.
package runners
