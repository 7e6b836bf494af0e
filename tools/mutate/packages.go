package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pkg describes a package as go list does.
type pkg struct {
	Dir, ImportPath, Name              string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

func (p pkg) hasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// listed returns the packages that match the patterns.
func listed(patterns ...string) ([]pkg, error) {
	out, err := command("go", append([]string{"list", "-json"}, patterns...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list packages: %w", err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// sample returns n edits of the packages, the same ones for the same seed, in the order of
// the files.
func sample(from []pkg, seed uint64, n int) ([]edit, error) {
	var all []edit
	for _, p := range from {
		if strings.Contains(p.ImportPath, "/testutil") {
			continue
		}
		for _, name := range p.GoFiles {
			file := filepath.Join(p.Dir, name)
			src, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			edits, err := editsOf(file, src)
			if err != nil {
				return nil, err
			}
			all = append(all, edits...)
		}
	}
	fmt.Printf("%d possible edits, seed %d\n", len(all), seed)
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:min(n, len(all))]
	slices.SortStableFunc(all, func(a, b edit) int { return strings.Compare(a.file, b.file) })
	return all, nil
}

// own returns the package itself, if it has tests.
func own(p pkg) []string {
	if !p.hasTests() {
		return nil
	}
	return []string{p.ImportPath}
}

// importers returns the packages with tests that import p directly, also in tests.
func importers(p pkg, all []pkg) (out []string) {
	for _, other := range all {
		imports := slices.Concat(other.Imports, other.TestImports, other.XTestImports)
		if other.hasTests() && other.ImportPath != p.ImportPath && slices.Contains(imports, p.ImportPath) {
			out = append(out, other.ImportPath)
		}
	}
	return out
}
