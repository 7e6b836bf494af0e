// Package debian gives the end-to-end tests a Debian of their own: the smallest
// that debootstrap makes from this machine's mirror, with systemd and udev. It is
// made once and kept, as one tar, in the user's cache folder. It contains no
// test but of that cache.
package debian
