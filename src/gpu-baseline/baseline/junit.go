package baseline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/testreport"
)

// maxJUnitFiles is the maximum number of JUnit files of one command line.
const maxJUnitFiles = 1000

// junitOptions holds a command line of junit.
type junitOptions struct{ paths []string }

func (o *junitOptions) cobra() *cobra.Command {
	return &cobra.Command{
		Use: "junit PATH...", DisableFlagsInUseLine: true,
		Short: "print results of JUnit files in one line, for the page of flakes",
		Long: "Prints the results of JUnit files in one line, for the page of flaky tests on the web. A folder means its " +
			"files *.xml, at any depth. The line has the names of failed tests and hashes of the others, and no output.",
		Example: "gpu-baseline junit test-results",
		Annotations: map[string]string{commandline.Exit: "0 printed, also if tests failed; 2 wrong command line, or a " +
			"file that is not JUnit."},
	}
}

func (o *junitOptions) flags(*pflag.FlagSet) {}

func (o *junitOptions) parse(words, after []string, _ bool) error {
	if o.paths = append(words, after...); len(o.paths) == 0 {
		return errors.New("cannot print results: name a JUnit file or a folder with such files")
	}
	return nil
}

// run reads all files before it prints, so the line is complete or missing.
func (o *junitOptions) run(_ context.Context, _ host.Host, s Streams) (exit int, err error) {
	var all testreport.JUnit
	files := 0
	for _, path := range o.paths {
		err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return fmt.Errorf("cannot read %s: %w", visible(file), cause(err))
			case d.IsDir() || file != path && !(strings.HasSuffix(file, ".xml") && d.Type().IsRegular()):
				return nil
			}
			if files++; files > maxJUnitFiles {
				return fmt.Errorf("cannot read %s: there are more than %d files", visible(path), maxJUnitFiles)
			}
			return readJUnit(&all, file)
		})
		if err != nil {
			return exitWrong, err
		}
	}
	if files == 0 {
		return exitWrong, fmt.Errorf("cannot print results: %s has no file *.xml", visible(o.paths[0]))
	}
	return exitWithin, write(s.Out, all.Report().Line()+"\n")
}

func readJUnit(all *testreport.JUnit, file string) error {
	f, err := os.Open(file)
	if err == nil {
		defer f.Close()
		err = all.Read(f)
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", visible(file), cause(err))
	}
	return nil
}
