// Package packages tests the packages that `make packages` writes: they are installed and
// removed by the real dpkg and rpm in a private Debian, with files, modes and services
// compared, and with an engine's file restored byte for byte.
package packages
