// stub is a command that prints a recorded answer: the file in STUB_DIR with a name that is
// the hash of the command line.
package main

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	h := fnv.New64a()
	h.Write([]byte(filepath.Base(os.Args[0]) + " " + strings.Join(os.Args[1:], " ")))
	answer, err := os.ReadFile(fmt.Sprintf("%s/%x", os.Getenv("STUB_DIR"), h.Sum64()))
	if err != nil {
		fmt.Fprintln(os.Stderr, "no recorded answer:", strings.Join(os.Args, " "))
		os.Exit(1)
	}
	os.Stdout.Write(answer)
}
