package predecessor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// The Python charm's database stays encrypted after the option is cleared (D26). Only the key
// can decrypt it.
func TestEncryptionKeyWithoutOptionIsTakenOver(t *testing.T) {
	h, _ := predecessor(t, "web")
	paths := concourse.HomeWebFiles()
	key, old := Encryption(h.Root, paths)
	require.Equal(t, "0123456789abcdef", key)
	require.Empty(t, old)

	// The run was killed after it wrote the file and before it published.
	file, err := concourse.WebConfig{Paths: paths, OldEncryptionKey: key}.File(nil)
	require.NoError(t, err)
	hosttest.Put(t, h.Root, paths.Env(), string(file.Data))
	now, old := Encryption(h.Root, paths)
	require.Empty(t, now)
	require.Equal(t, key, old)

	key, old = Encryption(h.Root, concourse.SeparateWebFiles())
	require.Empty(t, key+old)
}
