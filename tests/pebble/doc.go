// Package pebble holds what the charm writes for Pebble, its layer and its
// systemd unit, against the real Pebble with the real exporter as its service:
// what is killed, hangs or finds its port taken comes back. The tests are in
// files of the build tag e2e, as they need root to start services as others.
package pebble
