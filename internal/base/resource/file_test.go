package resource

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestFileIsWrittenUntilItIsAsWanted(t *testing.T) {
	f := File{Path: "/etc/x/y.conf", Data: []byte("new\n"), Mode: 0o640}
	for name, c := range map[string]struct {
		before func(t *testing.T, path string)
		why    string
	}{
		"missing":         {func(*testing.T, string) {}, "missing"},
		"other content":   {func(t *testing.T, p string) { require.NoError(t, os.WriteFile(p, []byte("old\n"), 0o640)) }, "content differs"},
		"other mode":      {func(t *testing.T, p string) { require.NoError(t, os.WriteFile(p, []byte("new\n"), 0o600)) }, "mode 0600, want 0640"},
		"a link":          {func(t *testing.T, p string) { require.NoError(t, os.Symlink("elsewhere", p)) }, "not a regular file"},
		"a dangling link": {func(t *testing.T, p string) { require.NoError(t, os.Symlink("/nowhere/at/all", p)) }, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := machine(t)
			hosttest.Put(t, h.Root, "/etc/x/elsewhere", "not ours\n")
			c.before(t, h.Path(f.Path))
			p := apply(t, h, f)
			require.Equal(t, "write /etc/x/y.conf", p[0].Op)
			require.Equal(t, c.why, p[0].Why)
			have, err := h.ReadFile(f.Path)
			require.NoError(t, err)
			require.Equal(t, f.Data, have)
			st, err := h.Lstat(f.Path)
			require.NoError(t, err)
			require.Equal(t, f.Mode, st.Mode())
			text, err := h.ReadText("/etc/x/elsewhere")
			require.NoError(t, err)
			require.Equal(t, "not ours", text, "a link is replaced, not followed")
			require.Empty(t, diff(t, h, f))
		})
	}
}

func TestFileInPlaceOfADirectoryFails(t *testing.T) {
	h, _ := machine(t)
	hosttest.Put(t, h.Root, "/etc/x/y.conf/inner", "")
	_, err := diff(t, h, File{Path: "/etc/x/y.conf", Mode: 0o644}).Apply(context.Background(), nil)
	var failed *plan.StepError
	require.ErrorAs(t, err, &failed)
	require.True(t, h.Exists("/etc/x/y.conf/inner"))
	left, err := filepath.Glob(h.Path("/etc/x/.*"))
	require.NoError(t, err)
	require.Empty(t, left, "no temporary file is left behind")
}

func TestCopyFollowsItsSource(t *testing.T) {
	h, _ := machine(t)
	from := filepath.Join(t.TempDir(), "program")
	c := Copy{Path: "/opt/bin/program", From: from, Mode: 0o755}
	_, err := c.Diff(context.Background(), h)
	require.ErrorIs(t, err, os.ErrNotExist)

	require.NoError(t, os.WriteFile(from, []byte("one"), 0o600))
	require.Equal(t, "missing", apply(t, h, c)[0].Why)
	require.Empty(t, diff(t, h, c))

	require.NoError(t, os.Chtimes(from, time.Time{}, hosttest.Now))
	require.Empty(t, diff(t, h, c), "the same content of another time is no change")

	require.NoError(t, os.WriteFile(from, []byte("two"), 0o600))
	require.NoError(t, os.Chtimes(from, time.Time{}, hosttest.Now))
	require.Equal(t, "content differs", apply(t, h, c)[0].Why)
	have, err := h.ReadText(c.Path)
	require.NoError(t, err)
	require.Equal(t, "two", have)

	require.NoError(t, os.WriteFile(from, []byte("three"), 0o600))
	require.Equal(t, "content differs", apply(t, h, c)[0].Why)
	require.NoError(t, os.Chmod(h.Path(c.Path), 0o700))
	require.Equal(t, "mode 0700, want 0755", apply(t, h, c)[0].Why)
	require.Empty(t, diff(t, h, c))
}

func TestDirIsMadeWithItsMode(t *testing.T) {
	h, _ := machine(t)
	d := Dir{Path: "/var/lib/a/b", Mode: 0o700}
	require.Equal(t, "missing", apply(t, h, d)[0].Why)
	st, err := h.Stat(d.Path)
	require.NoError(t, err)
	require.Equal(t, d.Mode, st.Mode().Perm())
	require.Empty(t, diff(t, h, d))

	hosttest.Put(t, h.Root, d.Path+"/kept", "x")
	require.NoError(t, os.Chmod(h.Path(d.Path), 0o755))
	require.Equal(t, "mode 0755, want 0700", apply(t, h, d)[0].Why)
	require.True(t, h.Exists(d.Path+"/kept"))

	_, err = Dir{Path: d.Path + "/kept", Mode: 0o700}.Diff(context.Background(), h)
	require.ErrorContains(t, err, "a file has that name")
}

func TestAbsentRemovesOnlyWhatIsNamed(t *testing.T) {
	h, _ := machine(t)
	require.Empty(t, diff(t, h, Absent{Path: "/etc/cdi/amd.json"}))
	hosttest.Put(t, h.Root, "/etc/cdi/amd.json", "ours")
	hosttest.Put(t, h.Root, "/etc/cdi/nvidia.yaml", "not ours")
	p := apply(t, h, Absent{Path: "/etc/cdi/amd.json", Why: "compute-runtime is none"})
	require.Equal(t, "remove /etc/cdi/amd.json", p[0].Op)
	require.Equal(t, "compute-runtime is none", p[0].Why)
	require.True(t, h.Exists("/etc/cdi/nvidia.yaml"))

	require.NoError(t, os.Symlink("nvidia.yaml", h.Path("/etc/cdi/link")))
	apply(t, h, Absent{Path: "/etc/cdi/link"})
	require.True(t, h.Exists("/etc/cdi/nvidia.yaml"), "a link is removed, not what it points to")

	_, err := diff(t, h, Absent{Path: "/etc/cdi"}).Apply(context.Background(), nil)
	require.Error(t, err, "a directory that is not empty needs Tree")
	apply(t, h, Absent{Path: "/etc/cdi", Tree: true})
	require.False(t, h.Exists("/etc/cdi"))
}
