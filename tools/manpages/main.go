// Command manpages writes a man page for each command of a program into a folder, and the
// completion of its commands for bash, zsh and fish into another one.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/version"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/cli"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cannot write man pages:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("want manpages FOLDER PROGRAM FOLDER-OF-COMPLETIONS")
	}
	var root *cobra.Command
	switch program := args[1]; program {
	case wellknown.GPUKit, wellknown.MachineProgram:
		root = cli.Root(wellknown.Program(program))
	case "rocm-exporter":
		root = exporter.Root(version.Version())
		commandline.Prepare(root)
	default:
		return fmt.Errorf("%q is not a program with commands", program)
	}
	return errors.Join(writeCompletions(root, args[2]), writePages(root, args[0]))
}

// writePages writes the pages of c and of the commands below it. They have no date, because
// the same source gives the same bytes.
func writePages(c *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() {
			if err := writePages(s, dir); err != nil {
				return err
			}
		}
	}
	c.DisableAutoGenTag = true
	if c.HasAvailableSubCommands() {
		c.Use, c.DisableFlagsInUseLine = c.Name()+" COMMAND", true
	}
	c.Long = description(c)
	header := doc.GenManHeader{Section: "1", Date: &time.Time{}, Source: "concourse-ci-machine " + version.Version()}
	var page bytes.Buffer
	if err := doc.GenMan(c, &header, &page); err != nil {
		return err
	}
	text := bytes.Replace(page.Bytes(), []byte(`"Jan 0001"`), []byte(`""`), 1)
	return os.WriteFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"), text, 0o644)
}

// description returns the text of a command with its notes and the commands below it, in
// Markdown.
func description(c *cobra.Command) string {
	text := cmp.Or(c.Long, c.Short)
	if note := c.Annotations[commandline.Note]; note != "" {
		text += "\n\n" + note
	}
	if c.HasAvailableSubCommands() {
		text += "\n\n# COMMANDS\n"
		for _, s := range c.Commands() {
			if s.IsAvailableCommand() {
				text += "\n**" + s.Name() + "**\n: " + s.Short + "\n"
			}
		}
	}
	return text
}

func writeCompletions(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, root.Name())
	return errors.Join(root.GenBashCompletionFileV2(name+".bash", false), root.GenZshCompletionFileNoDesc(name+".zsh"),
		root.GenFishCompletionFile(name+".fish", false))
}
