package baseline

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/testreport"
)

func TestJUnitPrintsOneLine(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		return file
	}
	put("a.xml", `<testsuite><testcase classname="t" name="fast"/></testsuite>`)
	put("deep/b.xml", `<testsuite><testcase classname="t" name="slow"><failure/></testcase></testsuite>`)
	put("note.txt", "no JUnit")
	exit, out, errs := call("", "junit", dir)
	require.Equal(t, 0, exit, errs)
	r, err := testreport.Parse(out)
	require.NoError(t, err)
	require.Equal(t, []string{"t.slow"}, r.Failed)
	known, passed := r.Has("t.fast")
	require.True(t, known && passed)

	bad := put("bad.xml", "<a>")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"junit"}, "name a JUnit file or a folder"},
		{[]string{"junit", dir}, "bad.xml: it ends too early"},
		{[]string{"junit", bad}, "it ends too early"},
		{[]string{"junit", filepath.Join(dir, "none")}, "no such file"},
		{[]string{"junit", t.TempDir()}, "has no file *.xml"},
	} {
		exit, out, errs := call("", c.args...)
		require.Equal(t, 2, exit)
		require.Empty(t, out)
		require.Contains(t, errs, c.want)
	}
}
