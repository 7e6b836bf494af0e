// Package run tests gpukit run, gpukit lease and the lease service as built programs, with
// real control groups and the fixture GPUs of a machine without Juju.
package run
