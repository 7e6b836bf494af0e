// Package rocm tests what comes from apt repositories with the real apt: the built
// dispatch, and the plans of internal/charm/amd, in a throwaway Debian made by debootstrap
// from this machine's own mirror. The repositories are made here: packages with the names
// and the habits of AMD's, signed by a key of the test's own, on 127.0.0.1. The dispatch of
// these tests trusts that key and not AMD's; nothing more in it differs.
//
// The tests carry the build tag e2e and need root, debootstrap, gpg and
// dpkg-deb. All they make is in a tmpfs and in namespaces that end with them,
// except the Debian itself, which internal/testutil/debian keeps in the user's cache folder.
package rocm
