package docs

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/oci"
)

const wrapperPage = "docs/reference/wrapper.md"

// A build's output shows one of these texts and nothing else.
func TestWrapperPageListsEveryRefusal(t *testing.T) {
	names := []string{".Errorf", ".New", ".Sprintf", "func Error", "func FolderNameProblem", "func holder", "func holders", "func probe"}
	for _, folder := range []string{"oci", "oci/cmdline", "oci/visible", "gpu/cdispec/...", "pool/lease", "pool/clockpin"} {
		requireListed(t, wrapperPage, literals(t, folder, names...))
	}
}

// configFields returns the names of a config's fields, with those of the structs in it.
func configFields(t reflect.Type, prefix string) (names []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, prefix+name)
		if f.Type.Kind() == reflect.Pointer {
			names = append(names, configFields(f.Type.Elem(), prefix+name+".")...)
		}
	}
	return names
}

func TestWrapperPageListsTheFieldsOfItsConfig(t *testing.T) {
	fields := configFields(reflect.TypeFor[oci.Config](), "")
	require.ElementsMatch(t, fields, column(readFile(t, wrapperPage), "field"))

	var variables []string
	for _, m := range regexp.MustCompile(`Env[A-Z]\w+ = "(\w+)"`).FindAllStringSubmatch(readFile(t, "internal/oci/config.go"), -1) {
		variables = append(variables, m[1])
	}
	require.ElementsMatch(t, variables, column(readFile(t, wrapperPage), "variable"))
}
