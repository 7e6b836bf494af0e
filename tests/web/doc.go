// Package web tests what the charm makes for a Concourse web against the real thing: a
// released Concourse with its own PostgreSQL, started with the environment, the files and
// the rights that its systemd unit gives it; and ss that ends connections for real.
//
// The tests carry the build tag e2e and need root, PostgreSQL, util-linux and iproute2.
// They run in network, mount and process their own namespaces, so that no port is anybody
// otherwise's and nothing they start outlives them. Those with Concourse need a release in
// CONCOURSE_RELEASE, its tarball or the unpacked folder, and are skipped without: a release
// is too large to fetch here.
package web
