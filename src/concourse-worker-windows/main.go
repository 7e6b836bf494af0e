// Command concourse-worker-windows runs a Concourse worker with AMD GPUs on Windows, as a
// service. On other systems it only prints its help.
package main

import (
	"os"

	"github.com/fourdollars/concourse-ci-machine/src/concourse-worker-windows/worker"
)

func main() {
	os.Exit(worker.Main(os.Args[1:], worker.ThisMachine(), os.Stdout, os.Stderr))
}
