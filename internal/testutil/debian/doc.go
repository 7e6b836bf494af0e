// Package debian makes small Debian systems for tests and the demo with debootstrap, from
// this machine's mirror. Each system is one tar in the user's cache folder, and is made
// once. The package also downloads packages without installing them. It never changes this
// machine's packages.
package debian
