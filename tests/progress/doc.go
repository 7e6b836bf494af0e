// Command progress runs `go test -json` and shows each package as it ends, what a failed
// test wrote, and, while nothing ends, which tests are running. It decides nothing: its
// exit status is go test's.
package main
