package release

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// A mirror that has another version under the name is asked for its checksum
// alone, hook after hook, until that is another.
func TestMirroredReleaseOfAnotherVersionIsFetchedAndUnpackedOnce(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %v", shared), func(t *testing.T) {
			h, m := machine(t), newMirror(t)
			if shared {
				hosttest.Put(t, h.Root, SharedMarker, "")
			}
			run := func(sum string) ([]string, []string, error) {
				r := m.from("8.2.5")
				r.SHA256, r.Shared, r.Unit = sum, shared, "worker/0"
				m.asked = nil
				said, err := followed(h, r)
				return m.asked, said, err
			}
			data := tarball(t, releaseEntries("8.2.4")...)
			m.put("8.2.5", data, true)
			var other *VersionError
			asked, said, err := run("")
			require.ErrorAs(t, err, &other)
			require.Equal(t, "8.2.4", other.Got)
			require.Contains(t, asked, name825)
			require.Contains(t, said, "Extracting Concourse 8.2.5...")
			for sum, wants := range map[string][]string{"": {name825 + ".sha256"}, sumOf(data): nil} {
				for range 2 {
					asked, said, err = run(sum)
					require.ErrorAs(t, err, &other)
					require.Equal(t, "8.2.4", other.Got)
					require.Equal(t, wants, asked)
					require.Empty(t, said, "nothing takes the place of the status")
				}
			}
			m.put("8.2.5", tarball(t, append(releaseEntries("8.2.4"), entry{name: "concourse/bin/init"})...), true)
			_, said, err = run("")
			require.ErrorAs(t, err, &other)
			require.Contains(t, said, "Extracting Concourse 8.2.5...", "other bytes are looked at")
			m.put("8.2.5", tarball(t, releaseEntries("8.2.5")...), true)
			_, _, err = run("")
			require.NoError(t, err)
			require.False(t, h.Exists(downloadDir))
		})
	}
}
