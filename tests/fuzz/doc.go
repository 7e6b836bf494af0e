// Package fuzz runs the fuzzers of outside input for 4 or 10 seconds each, as part of
// `make e2e`. A weekly workflow gives each a minute. What they found worth keeping is in
// testdata/fuzz of the packages and is tried again by every `go test`. Leases run against
// their model here, too, with random steps.
package fuzz
