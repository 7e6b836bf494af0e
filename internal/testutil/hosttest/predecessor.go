package hosttest

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// PredecessorNames returns the units that Predecessor can create.
func PredecessorNames() []string { return []string{"web", "worker", "rocm", "cuda", "lxc"} }

// Predecessor returns a unit as the Python charm leaves it, which the test may change. It
// is a fixture host with the trees of predecessors/, each with a list of properties that
// plain files lack, see predecessors/README.md.
func Predecessor(t testing.TB, name string) host.Root {
	t.Helper()
	require.True(t, slices.Contains(PredecessorNames(), name), name)
	below, layers := "no-gpu", []string{name}
	switch name {
	case "rocm":
		below, layers = "amd", []string{"worker", name}
	case "cuda":
		below, layers = "nvidia-only", []string{"worker", name}
	}
	dir := filepath.Join(filepath.Dir(HostsDir()), "predecessors")
	r := Host(t, below)
	for _, l := range layers {
		lay(t, r, filepath.Join(dir, l))
		list, err := os.ReadFile(filepath.Join(dir, l+".list"))
		require.NoError(t, err)
		applyList(t, r, list)
	}
	return r
}

// lay copies the files of a tree into the root, and replaces existing ones.
func lay(t testing.TB, r host.Root, tree string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(tree, func(full string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		p := "/" + strings.TrimPrefix(full, tree+"/")
		if err := r.Remove(p); err != nil {
			return err
		}
		Put(t, r, p, string(data)) // no file must survive a crash, so no sync
		return nil
	}))
}

// applyList applies a list. "<mode> <path>" sets a file's mode, and creates a folder if the
// path ends in "/". "link <path> <to>" replaces a link. "key <type> <path>" writes the
// files of `concourse generate-key` with the Key of that name. "public <path> <name>..."
// writes a file of public keys.
func applyList(t testing.TB, r host.Root, list []byte) {
	t.Helper()
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); {
		field := strings.Fields(lines.Text())
		if len(field) == 0 || field[0] == "#" {
			continue
		}
		switch field[0] {
		case "link":
			require.Len(t, field, 3, lines.Text())
			require.NoError(t, r.Remove(field[1]))
			Link(t, r, field[1], field[2])
			continue
		case "key":
			require.Len(t, field, 3, lines.Text())
			private, public := Key(field[2])
			Put(t, r, field[2], private)
			require.NoError(t, os.Chmod(r.Path(field[2]), 0o600))
			if field[1] == "ssh" {
				Put(t, r, field[2]+".pub", public)
			}
			continue
		case "public":
			var all string
			for _, name := range field[2:] {
				_, public := Key(name)
				all += public
			}
			Put(t, r, field[1], all)
			continue
		}
		require.Len(t, field, 2, lines.Text())
		mode, err := strconv.ParseUint(field[0], 8, 12)
		require.NoError(t, err, lines.Text())
		if strings.HasSuffix(field[1], "/") {
			require.NoError(t, os.MkdirAll(r.Path(field[1]), 0o755))
		}
		require.NoError(t, os.Chmod(r.Path(field[1]), os.FileMode(mode)))
	}
}
