// Command sbom writes the content of Go programs as CycloneDX 1.6, JSON. It lists each
// linked module with its checksum, as the programs contain it (debug/buildinfo). The output
// has no time and no serial number, so the same programs give the same text.
package main

import (
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const (
	name   = "concourse-ci-machine"
	module = "github.com/fourdollars/" + name // and those below it are the project's own
)

func main() {
	version := flag.String("version", "", "of the charm")
	arch := flag.String("arch", "", "of the programs")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "sbom -version VERSION -arch ARCH PROGRAM...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *version == "" || *arch == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(os.Stdout, *version, *arch, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, version, arch string, programs []string) error {
	parts, uses := map[string]cdx.Component{}, map[string][]string{}
	for _, path := range slices.Sorted(slices.Values(programs)) {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", path, err)
		}
		program := cdx.Component{Type: cdx.ComponentTypeApplication, Name: filepath.Base(path),
			BOMRef: filepath.Base(path), Version: version}
		parts[program.BOMRef] = program
		modules := append(slices.Clone(info.Deps), &debug.Module{Path: "std", Version: info.GoVersion}, &info.Main)
		for _, m := range modules {
			if strings.HasPrefix(m.Path, module) {
				continue
			}
			if m.Replace != nil {
				m = m.Replace
			}
			c := cdx.Component{Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version}
			c.PackageURL = "pkg:golang/" + m.Path + "@" + m.Version
			c.BOMRef = c.PackageURL
			if m.Sum != "" { // from go.sum: the hash of a list of files, which CycloneDX does not have
				c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
			}
			parts[c.BOMRef] = c
			uses[program.BOMRef] = append(uses[program.BOMRef], c.BOMRef)
		}
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{Type: cdx.ComponentTypeApplication, Name: name,
		Version: version, BOMRef: name,
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "GPL-3.0-only"}}},
		Properties: &[]cdx.Property{{Name: "architecture", Value: arch}}}}
	var components []cdx.Component
	for _, ref := range slices.Sorted(maps.Keys(parts)) {
		components = append(components, parts[ref])
	}
	bom.Components = &components
	all := slices.Sorted(maps.Keys(uses))
	graph := []cdx.Dependency{{Ref: name, Dependencies: &all}}
	for _, ref := range all {
		direct := slices.Compact(slices.Sorted(slices.Values(uses[ref])))
		graph = append(graph, cdx.Dependency{Ref: ref, Dependencies: &direct})
	}
	bom.Dependencies = &graph
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}
