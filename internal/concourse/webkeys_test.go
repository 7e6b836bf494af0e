package concourse_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// Concourse ignores names that it does not know, so each one is checked: the web's own, of
// every option, and of the relations to Vault and to LDAP.
func TestWebKnowsEveryVariable(t *testing.T) {
	known := concourse.KnownVariables(t, "web")
	for _, key := range slices.Concat(concourse.WebKeys(), config.WebEnvKeys()) {
		require.True(t, slices.Contains(known, key) || strings.HasSuffix(key, "_proxy"),
			"%s is no variable of concourse web", key)
	}
	for _, key := range concourse.OwnWebKeys() {
		require.NotContains(t, config.WebEnvKeys(), key, "no option writes what only the charm may")
	}
}
