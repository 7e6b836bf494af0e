package docs

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

const (
	wrapperPage   = "docs/reference/wrapper.md"
	wrapperReadme = "src/runc-amd-wrapper/README.md"
)

// unlisted are beginnings of refusals without a row. The text names the fix, or only a change
// of the code helps.
var unlisted = []string{
	"cannot change process file", "cannot decode %s", "cannot edit", "cannot enter container",
	"cannot find the real runc: %q", "cannot find the real runc: none", "cannot find the real runc: cannot read",
	"cannot fix the clocks", "cannot give the container %s: its mode", "cannot give the container the folder %s/%s: no such",
	"cannot give the task %d GPUs", "cannot give the task %s: %w", "cannot give the task %s: %s, and no private node",
	"cannot give the task %s: CDI spec %s is stale", "cannot give the task %s=%s GPUs", "cannot give the task GPUs with",
	"cannot give the task the GPU that", "cannot inspect this program", "cannot lease %d GPUs", "cannot lease %s: the",
	"cannot lease %s: this machine has", "cannot lease GPU %", "cannot lease GPUs", "cannot leave the container",
	"cannot make a memory file", "cannot open bundle", "cannot open directory of GPU leases",
	"cannot read counters", "cannot read marker", "cannot read the call of runc", "cannot record the lease",
	"cannot release GPU", "cannot remove marker", "cannot see", "cannot use %s as the real runc",
	"cannot use %s for device nodes", "cannot use %s in container", "cannot use %s: it", "cannot use CDI spec %s: its",
	"cannot use bundle", "cannot use container ID",
}

// A refusal begins with cannot. Other texts are reasons in it.
func TestWrapperPageListsRefusalsThatDoNotNameTheirFix(t *testing.T) {
	names := []string{".Errorf", ".New", ".Sprintf", "func Error", "func holder", "func holders", "func probe"}
	used := map[string]bool{}
	var wanted []string
	for _, folder := range []string{"oci", "oci/cmdline", "oci/visible", "gpu/cdispec/...", "pool/lease", "pool/fixedclocks"} {
		for _, text := range literals(t, folder, names...) {
			begins := func(with string) bool { return strings.HasPrefix(text, with) }
			if i := slices.IndexFunc(unlisted, begins); i >= 0 {
				used[unlisted[i]] = true
			} else if begins("cannot ") {
				wanted = append(wanted, text)
			}
		}
	}
	requireListed(t, wrapperPage, wanted)
	for _, beginning := range unlisted {
		require.True(t, used[beginning], "no refusal begins with %q", beginning)
	}
}

// configFields returns the names of a config's fields, also of the structs in it.
func configFields(t reflect.Type, prefix string) (names []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, prefix+name)
		if of := f.Type; of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct {
			names = append(names, configFields(f.Type.Elem(), prefix+name+".")...)
		}
	}
	return names
}

func TestWrapperReadmeListsTheFieldsOfItsConfig(t *testing.T) {
	fields := configFields(reflect.TypeFor[oci.Config](), "")
	require.ElementsMatch(t, fields, column(readFile(t, wrapperReadme), "field"))

	require.ElementsMatch(t, []string{oci.EnvConfig, oci.EnvRuntime}, column(readFile(t, wrapperReadme), "variable"))
}
