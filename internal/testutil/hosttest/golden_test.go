package hosttest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// failing keeps the message of a test that fails.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Errorf(format string, args ...any) { f.text += fmt.Sprintf(format, args...) }
func (f *failing) FailNow()                          { runtime.Goexit() }

func TestGoldenThatDiffersNamesTheCommand(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	f := &failing{TB: t}
	differ := func() {
		done := make(chan struct{})
		go func() { defer close(done); Golden(f, page, "new") }()
		<-done
	}
	const want = "if page.md should change, run make update PKG=./internal/testutil/hosttest"
	differ()
	require.Contains(t, f.text, want, "the file is missing")
	f.text = ""
	require.NoError(t, os.WriteFile(page, []byte("old"), 0o600))
	differ()
	require.Contains(t, f.text, want)
	f.text = ""
	require.NoError(t, os.WriteFile(page, []byte("new"), 0o600))
	differ()
	require.Empty(t, f.text)
}
