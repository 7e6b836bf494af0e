// Package terraform tests the module in terraform/ and its examples. Their texts on the
// charm are held to the charm's own files, with any `go test`. With the build tag terraform
// the real OpenTofu formats, validates and plans them by the schema and the checks of
// Juju's real provider; `make test-terraform` does that, without root. Where a plan would
// ask a controller, OpenTofu answers in its place (mock_provider), and the takeover of
// applications (import.tf), which it can't play, is left out of plans.
//
// Both programs are built of the module proxy's sources, each by its own module that
// nothing imports (tofu/, provider/), and kept in the user's cache folder. The tests reach
// no network.
package terraform
