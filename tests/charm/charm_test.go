package charm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/tools/charmpack"
)

// root is the repository.
const root = "../.."

func TestFilesAreInJujusFormat(t *testing.T) {
	require.NoError(t, charmpack.Source{Root: root}.Check())
}

// hooks/ and metadata.yaml are both checked in; `make hooks` brings them together.
func TestHooksMatchTheMetadata(t *testing.T) {
	want := charmpack.HookNames([]string{"catalogue", "certificates", "cos-agent", "fleet-route", "flight", "haproxy-route", "ldap", "monitoring", "peers", "postgresql", "receive-ca-certs", "tracing", "tsa", "vault-kv"}, nil)
	entries, err := os.ReadDir(filepath.Join(root, "hooks"))
	require.NoError(t, err)
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	require.Equal(t, want, have)
}
