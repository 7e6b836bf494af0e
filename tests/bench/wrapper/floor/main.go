// The command floor does the least that a wrapper of runc in Go can do: it
// becomes the real runc. The bench of the wrapper measures against it.
package main

import (
	"os"
	"syscall"
)

func main() {
	real := os.Getenv("RUNC_AMD_RUNTIME")
	if err := syscall.Exec(real, append([]string{real}, os.Args[1:]...), os.Environ()); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}
