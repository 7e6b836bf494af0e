package docs

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const rulesPage = "internal/flight/README.md"

// The list of the page is made from the rules.
func TestRulesOfVerdictsAreOnTheirPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n")
	codes := map[string]bool{}
	for _, r := range verdict.Rules {
		require.False(t, codes[r.Code], "%s is there twice", r.Code)
		codes[r.Code] = true
		require.Contains(t, verdict.Kinds, r.Kind)
		for _, text := range []string{r.When, r.Source, r.Fix} {
			require.NotEmpty(t, text, r.Code)
		}
		fmt.Fprintf(&b, "- `%s`, `%s`: %s\n", r.Code, r.Kind, r.When)
	}
	b.WriteString("\n")
	page := withSection(t, readFile(t, rulesPage), "rules", b.String())
	hosttest.Golden(t, filepath.Join(root, rulesPage), page)
	require.Less(t, len(strings.Fields(readFile(t, "docs/how-to/why-did-my-build-fail.md"))), 500)
	kinds := terms(readFile(t, "docs/how-to/why-did-my-build-fail.md"))
	for _, k := range verdict.Kinds {
		require.True(t, slices.Contains(kinds, string(k)), k)
	}
}
