// Command site prepares the pages of docs/ for mkdocs, and checks the site that mkdocs made.
// scripts/site.sh calls it before and after mkdocs. It reads and writes below the current
// folder alone, and requests nothing from the network.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "pages":
		return prepare(".", args[1], os.Stdin)
	case len(args) == 1 && args[0] == "check":
		s, err := readSettings(".")
		if err != nil {
			return err
		}
		problems, pages, err := check("dist/site", s.SiteURL)
		if err != nil {
			return err
		}
		if len(problems) > 0 {
			return fmt.Errorf("dist/site has dead links:\n%s", strings.Join(problems, "\n"))
		}
		fmt.Printf("dist/site: %d pages\n", pages)
		return nil
	default:
		return fmt.Errorf("want: site pages VERSION <DATES, or site check")
	}
}
