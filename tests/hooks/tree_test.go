package hooks

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
)

// tree is every path below the given folders of the unit with its kind, mode and content.
// Of files with a content that is random or a date, or names one, the content is left out.
func tree(u *unit, below ...string) map[string]string {
	u.t.Helper()
	id, _ := u.Root.ReadText("/var/lib/concourse/worker/.worker-id")
	key, _ := u.Root.ReadText("/var/lib/concourse-worker/keys/worker_key.pub")
	found := map[string]string{}
	for _, top := range below {
		if !u.Root.Exists(top) {
			continue
		}
		require.NoError(u.t, filepath.WalkDir(u.Root.Path(top), func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			path := u.Root.Rel(p)
			info, err := d.Info()
			if err != nil {
				return err
			}
			text := info.Mode().String()
			switch {
			case d.Type()&fs.ModeSymlink != 0:
				to, err := os.Readlink(p)
				if err != nil {
					return err
				}
				text += " -> " + strings.TrimPrefix(to, string(u.Root))
			case d.Type().IsRegular() && !personal(path):
				data, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				plain := string(data)
				for from, to := range map[string]string{id: "ID", key: "KEY"} {
					if from != "" {
						plain = strings.ReplaceAll(plain, from, to)
					}
				}
				text += fmt.Sprintf(" %x", sha256.Sum256([]byte(plain)))
			}
			found[path] = text
			return nil
		}))
	}
	return found
}

// below is tree of all folders that a unit writes to.
func below(u *unit) map[string]string { return tree(u, "/etc", "/opt", "/run", "/usr", "/var") }

// differences names the paths that are not alike in two trees.
func differences(a, b map[string]string) (found []string) {
	for path := range a {
		if a[path] != b[path] {
			found = append(found, fmt.Sprintf("%s: %q, then %q", path, a[path], b[path]))
		}
	}
	for path := range b {
		if _, ok := a[path]; !ok {
			found = append(found, fmt.Sprintf("%s: missing, then %q", path, b[path]))
		}
	}
	return found
}

// personal files differ between two units that are alike. juju.json is what Juju said last,
// so it reports a hook's publication only in the next one.
func personal(path string) bool {
	for _, s := range []string{".stamp", "/worker_key", "/worker_key.pub", "/.worker-id", "/toolkit-attempt.json", "/juju.json", "/etc/default/concourse"} {
		if strings.HasSuffix(path, s) {
			return true
		}
	}
	return false
}
