package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree is a module with a function for each answer.
var tree = map[string]string{
	"go.mod": "module m\n\ngo 1.26\n",
	"src/p/main.go": `package main

import (
	"m/lib"
	"m/skipped"
)

func main() { lib.Called(lib.Method{}); skipped.Called() }
`,
	"lib/lib.go": `package lib

type Runner interface{ Run() }
type Method struct{}
type Value struct{}

func (Method) Run()       {}
func (Value) Dead()      {}
func Called(r Runner)     { r.Run() }
func OfTests()            {}
func OfTaggedTests()      {}
func Generic[T any](v T)  {}
`,
	"lib/lib_test.go": `package lib

import "testing"

func TestLib(t *testing.T) { OfTests(); Generic(1) }
func helper()              {}
`,
	"lib/tagged_test.go": `//go:build e2e

package lib

import "testing"

func TestTagged(t *testing.T) { OfTaggedTests() }
`,
	"skipped/skipped.go": `package skipped

func Called()             {}
func OfTests()            {}
`,
	"skipped/skipped_test.go": `package skipped

import "testing"

func TestSkipped(t *testing.T) { OfTests() }
`,
	"lib/other.go":       "package lib\n\nfunc OfAnotherModule() {}\n",
	"tests/only/only.go": "package only\n\nfunc Nobody() {}\n",
}

func TestUnreachedFunctionsAreListed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range tree {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := unreached(dir, []string{"src/"}, []string{"skipped/", "lib/other.go/"}, "e2e")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
lib/lib.go:10:6: OfTests is not reached by a program
lib/lib.go:11:6: OfTaggedTests is not reached by a program
lib/lib.go:12:6: Generic is not reached by a program
lib/lib.go:8:14: Dead is not reached by a program
lib/lib.go:8:14: Dead is not reached by a program or test
lib/lib_test.go:6:6: helper is not reached by a program or test
tests/only/only.go:3:6: Nobody is not reached by a program or test`, "\n")
	if found := strings.ReplaceAll(strings.Join(got, "\n"), dir+"/", ""); found != want {
		t.Errorf("found\n%s\nwant\n%s", found, want)
	}
}
