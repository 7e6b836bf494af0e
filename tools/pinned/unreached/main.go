// Command unreached lists functions that no program reaches and functions that not even a
// test reaches. It answers as golang.org/x/tools/cmd/deadcode does with and without -test,
// but reads the tree and its dependencies once. Both answers come from rapid type analysis.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/callgraph/rta"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

func main() {
	programs := flag.String("programs", "", "`FOLDER,...` of the main packages that are programs")
	skip := flag.String("skip", "", "`FOLDER,...` with functions that no program needs to reach, and FILE.go that other modules reach")
	tags := flag.String("tags", "", "of the tests")
	flag.Parse()
	dead, err := unreached(".", folders(*programs), folders(*skip), *tags)
	if err != nil {
		fmt.Fprintln(os.Stderr, "unreached:", err)
		os.Exit(2)
	}
	for _, line := range dead {
		fmt.Println(line)
	}
	if len(dead) > 0 {
		os.Exit(1)
	}
}

// folders splits a list of folders and ends each with a slash.
func folders(list string) (found []string) {
	for f := range strings.SplitSeq(list, ",") {
		found = append(found, f+"/")
	}
	return found
}

// unreached returns a line for each function of the module in dir that nothing reaches.
// If a main package below the folders in programs imports a package, one of these programs
// must reach each function of it, unless the package is below a folder in skip.
func unreached(dir string, programs, skip []string, tags string) ([]string, error) {
	all, err := packages.Load(&packages.Config{Dir: dir, Tests: true, BuildFlags: []string{"-tags=" + tags},
		Mode: packages.LoadAllSyntax | packages.NeedModule}, "./...")
	if err != nil {
		return nil, err
	}
	if n := packages.PrintErrors(all); n > 0 {
		return nil, fmt.Errorf("cannot read the packages: %d errors", n)
	}
	prog, _ := ssautil.AllPackages(all, ssa.InstantiateGenerics)
	module := all[0].Module.Path + "/"
	below := func(path string, folders []string) bool {
		return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(path+"/", module+f) })
	}
	var ofPrograms []*packages.Package
	var fromPrograms, fromAll []*ssa.Function
	for _, p := range all {
		// Variants of a package for tests have other IDs.
		program := p.ID == p.PkgPath && !strings.HasSuffix(p.ID, ".test") && below(p.PkgPath, programs)
		if program {
			ofPrograms = append(ofPrograms, p)
		}
		if p.Name == "main" {
			main := prog.Package(p.Types)
			roots := []*ssa.Function{main.Func("init"), main.Func("main")}
			fromAll = append(fromAll, roots...)
			if program {
				fromPrograms = append(fromPrograms, roots...)
			}
		}
	}
	if len(fromPrograms) == 0 {
		return nil, fmt.Errorf("no program is below %s", strings.Join(programs, ", "))
	}
	inPrograms := functions(ofPrograms, skip, func(path string) bool { return strings.HasPrefix(path, module) && !below(path, skip) })
	inAll := functions(all, skip, func(path string) bool { return strings.HasPrefix(path, module) })
	prog.Build()
	var dead []string
	report := func(names map[token.Position]string, roots []*ssa.Function, by string) {
		for f := range rta.Analyze(roots, false).Reachable {
			delete(names, prog.Fset.Position(f.Pos()))
		}
		for at, name := range names {
			dead = append(dead, fmt.Sprintf("%s: %s is not reached by a %s", at, name, by))
		}
	}
	report(inPrograms, fromPrograms, "program")
	report(inAll, fromAll, "program or test")
	slices.Sort(dead)
	return dead, nil
}

// functions returns the names of the functions in packages among roots and their imports
// that want accepts, without those of files in skip. The variants of a package declare a
// function at one position.
func functions(roots []*packages.Package, skip []string, want func(path string) bool) map[token.Position]string {
	names := map[token.Position]string{}
	packages.Visit(roots, nil, func(p *packages.Package) {
		if !want(p.PkgPath) {
			return
		}
		for _, file := range p.Syntax {
			name := p.Fset.Position(file.Pos()).Filename + "/"
			if ast.IsGenerated(file) || slices.ContainsFunc(skip, func(f string) bool { return strings.HasSuffix(name, "/"+f) }) {
				continue
			}
			for _, d := range file.Decls {
				if f, is := d.(*ast.FuncDecl); is {
					names[p.Fset.Position(f.Name.Pos())] = f.Name.Name
				}
			}
		}
	})
	return names
}
