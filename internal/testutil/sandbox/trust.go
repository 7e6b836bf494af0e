package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
)

// updateTrust does the work of Debian's script for the machine's own certificates: a link
// and an entry in the bundle for each. Dangling links stay unless fresh is set.
func (m *Machine) updateTrust(fresh bool) reply {
	const dir, bundle = "/etc/ssl/certs", "/etc/ssl/certs/ca-certificates.crt"
	fail := func(err error) reply { return reply{Stderr: err.Error() + "\n", Code: 1} }
	if err := m.Root.MkdirAll(dir, 0o755); err != nil {
		return fail(err)
	}
	links, err := m.Root.Glob(dir + "/*.pem")
	if err != nil {
		return fail(err)
	}
	for _, l := range links {
		if !fresh {
			break
		}
		if err := m.Root.Remove(l); err != nil {
			return fail(err)
		}
	}
	files, err := m.Root.Glob("/usr/local/share/ca-certificates/*/*.crt")
	if err != nil {
		return fail(err)
	}
	all := "public\n"
	for _, f := range files {
		text, err := m.Root.ReadFile(f)
		if err != nil {
			return fail(err)
		}
		all += string(text)
		link := m.Root.Path(path.Join(dir, strings.TrimSuffix(path.Base(f), ".crt")+".pem"))
		if err := os.Symlink(m.Root.Path(f), link); err != nil && !errors.Is(err, fs.ErrExist) {
			return fail(err)
		}
	}
	if err := m.Root.WriteFile(bundle, []byte(all), 0o644); err != nil {
		return fail(err)
	}
	return reply{}
}
