package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const wrapperPage = "docs/reference/wrapper.md"

// A build's output shows one of these texts and nothing else.
func TestWrapperPageListsEveryRefusal(t *testing.T) {
	names := []string{".Errorf", ".New", ".Sprintf", "func Error", "func FolderNameProblem", "func holder", "func holders", "func probe"}
	for _, folder := range []string{"oci", "oci/cmdline", "oci/visible", "gpu/cdispec/...", "pool/lease", "pool/clockpin"} {
		requireListed(t, wrapperPage, literals(t, folder, names...))
	}
}

func TestWrapperPageListsTheFieldsOfItsConfig(t *testing.T) {
	var fields []string
	prefix := ""
	bench, _, _ := strings.Cut(readFile(t, "internal/oci/benchgpu.go"), "\n// BenchGPU ") // told of in the row of the list
	for line := range strings.Lines(readFile(t, "internal/oci/config.go") + readFile(t, "internal/oci/leases.go") + readFile(t, "internal/oci/withheld.go") + bench) {
		if m := regexp.MustCompile(`^type (Folders|Leases|Withheld|Bench) `).FindStringSubmatch(line); m != nil {
			prefix = strings.Replace(strings.ToLower(m[1])+".", "bench.", "leases.bench.", 1)
		}
		if m := regexp.MustCompile("`json:\"([a-z_]+)").FindStringSubmatch(line); m != nil {
			fields = append(fields, prefix+m[1])
		}
	}
	require.ElementsMatch(t, fields, column(readFile(t, wrapperPage), "field"))

	var variables []string
	for _, m := range regexp.MustCompile(`Env[A-Z]\w+ = "(\w+)"`).FindAllStringSubmatch(readFile(t, "internal/oci/config.go"), -1) {
		variables = append(variables, m[1])
	}
	require.ElementsMatch(t, variables, column(readFile(t, wrapperPage), "variable"))
}
