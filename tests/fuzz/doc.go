// Package fuzz runs the fuzzers of what the wrapper reads from outside, each
// for 10 to 30 seconds, as part of `make e2e`. What they found worth keeping stands in
// testdata/fuzz of the packages and is tried again by every `go test`. Leases run
// against their model here, too, with random steps.
package fuzz
