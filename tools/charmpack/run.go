package charmpack

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const usage = `charmpack pack|tree|hooks [flags]
  pack   write the charm, a zip, to -o
  tree   write the charm's files below the folder -o (for charmcraft)
  hooks  make hooks/ match metadata.yaml
`

// Run runs the command line of charmpack. It returns the exit status: 0 for success, 1 for
// an error, 2 for wrong usage.
func Run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	var s Source
	flags := flag.NewFlagSet("charmpack "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.Root, "root", ".", "the repository")
	flags.StringVar(&s.Bin, "bin", "bin", "folder of the built programs")
	flags.StringVar(&s.Arch, "arch", "amd64", "their architecture")
	flags.StringVar(&s.Version, "version", "unknown", "version to show")
	flags.BoolVar(&s.Takeover, "takeover", false,
		"leave out the endpoints and the resource that the Python charm lacks")
	out := flags.String("o", "", "the charm or folder to write")
	if flags.Parse(args[1:]) != nil {
		return 2
	}
	verbs := map[string]func(Source, string, io.Writer) error{"pack": pack, "tree": tree, "hooks": hooks}
	do, ok := verbs[args[0]]
	if !ok || flags.NArg() > 0 || (*out == "" && args[0] != "hooks") {
		fmt.Fprint(stderr, usage)
		return 2
	}
	if err := do(s, *out, stdout); err != nil {
		fmt.Fprintln(stderr, "charmpack:", err)
		return 1
	}
	return 0
}

func pack(s Source, out string, stdout io.Writer) error {
	entries, err := s.Entries()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := writeZip(&b, entries); err != nil {
		return err
	}
	if err := fits(b.Len()); err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(out), "."+filepath.Base(out)+".new")
	if err := os.WriteFile(tmp, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("cannot write the charm: %w", err)
	}
	if err := os.Rename(tmp, out); err != nil {
		os.Remove(tmp)
		return fmt.Errorf("cannot write the charm: %w", err)
	}
	fmt.Fprintf(stdout, "%s: %d files, %.1f MB\n", out, len(entries), float64(b.Len())/1e6)
	return nil
}

func fits(size int) error {
	if size > MaxSize {
		return fmt.Errorf("cannot write the charm: it has %.1f MB, and %.1f MB is the limit", float64(size)/1e6,
			MaxSize/1e6)
	}
	return nil
}

func tree(s Source, out string, stdout io.Writer) error {
	entries, err := s.Entries()
	if err != nil {
		return err
	}
	if err := writeTree(out, entries); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: %d files\n", out, len(entries))
	return nil
}

func hooks(s Source, _ string, stdout io.Writer) error {
	added, err := s.LinkHooks()
	for _, name := range added {
		fmt.Fprintf(stdout, "hooks/%s\n", name)
	}
	return err
}
