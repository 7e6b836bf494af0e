//go:build e2e

package page

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const axeVersion = "4.10.3"

// axe is the script of axe-core, which finds what keeps people out of a page: the file that
// $AXE names, or npm's package in the user's cache folder. The test is skipped if there is
// neither.
func axe(t *testing.T) string {
	t.Helper()
	if file := os.Getenv("AXE"); file != "" {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	cache = filepath.Join(cache, "concourse-ci-machine-tests")
	archive := filepath.Join(cache, "axe-core-"+axeVersion+".tgz")
	if _, err := os.Stat(archive); err != nil {
		require.NoError(t, os.MkdirAll(cache, 0o755))
		npm := exec.Command("npm", "pack", "axe-core@"+axeVersion, "--pack-destination="+cache)
		if out, err := npm.CombinedOutput(); err != nil {
			t.Skipf("needs axe-core: set AXE to its axe.min.js, or let npm fetch it: %v\n%s", err, out)
		}
	}
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		require.NoError(t, err, "%s has no axe.min.js", archive)
		if h.Name == "package/axe.min.js" {
			text, err := io.ReadAll(r)
			require.NoError(t, err)
			return string(text)
		}
	}
}

// hinders are axe's findings on the page that is open, all rules and best practices.
func (b *browser) hinders(axe string) (found []string) {
	b.t.Helper()
	b.eval(axe+";0", nil)
	var violations []struct {
		ID, Help string
		Nodes    []struct{ HTML, FailureSummary string }
	}
	b.eval(`axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations)`, &violations)
	for _, v := range violations {
		found = append(found, fmt.Sprintf("%s: %s: %+v", v.ID, v.Help, v.Nodes))
	}
	return found
}
