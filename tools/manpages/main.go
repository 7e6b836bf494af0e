// Command manpages writes a man page for each command of dispatch or gpukit into a folder.
package main

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/version"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/cli"
)

func main() {
	program := wellknown.Program(wellknown.Dispatch)
	switch {
	case len(os.Args) == 2:
	case len(os.Args) == 3 && os.Args[2] == wellknown.GPUKit:
		program = wellknown.GPUKit
	default:
		fmt.Fprintln(os.Stderr, "cannot write man pages: want manpages FOLDER [gpukit]")
		os.Exit(2)
	}
	if err := write(program, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "cannot write man pages:", err)
		os.Exit(1)
	}
}

func write(program wellknown.Program, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// A fixed date: the same source gives the same bytes.
	date := time.Unix(0, 0).UTC()
	root := cli.Root(program)
	root.DisableAutoGenTag = true
	addNotes(root)
	source := "concourse-ci-machine " + version.Version()
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Date: &date, Source: source}, dir)
}

// addNotes adds the notes after the flags to the descriptions.
func addNotes(c *cobra.Command) {
	if text := c.Annotations[commandline.Note]; text != "" {
		c.Long = cmp.Or(c.Long, c.Short) + "\n\n" + text
	}
	for _, s := range c.Commands() {
		addNotes(s)
	}
}
