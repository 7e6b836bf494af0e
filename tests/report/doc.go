// Command report turns the output of `go test -json` into a table of suites
// and the reason of every skip, for .ci/run. It never runs a test.
package main
