package host_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestOnlyRootRefusesWhatOthersCanReplace(t *testing.T) {
	const file = "/opt/bin/program"
	mode := func(p string, m os.FileMode) func(*testing.T, host.Root) {
		return func(t *testing.T, r host.Root) { require.NoError(t, os.Chmod(r.Path(p), m)) }
	}
	owner := func(p string) func(*testing.T, host.Root) {
		return func(t *testing.T, r host.Root) {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a file to another user")
			}
			require.NoError(t, os.Lchown(r.Path(p), 4711, 4711))
		}
	}
	for name, c := range map[string]struct {
		change func(*testing.T, host.Root)
		path   string
		want   string
	}{
		"root's":                    {mode(file, 0o755), file, ""},
		"another user's":            {owner(file), file, file + " belongs to user 4711, who could put another program there; chown it to root"},
		"in another user's folder":  {owner("/opt"), file, "/opt belongs to user 4711"},
		"a group can write it":      {mode(file, 0o775), file, file + " can be written by others than root; chmod go-w it"},
		"all can write its folder":  {mode("/opt/bin", 0o777), file, "/opt/bin can be written by others than root; chmod go-w it"},
		"its folder is as /tmp":     {mode("/opt/bin", 0o777|os.ModeSticky), file, ""},
		"a link to it":              {mode(file, 0o755), "/usr/program", ""},
		"a folder that is a link":   {mode(file, 0o755), "/bin/program", ""},
		"another user's link":       {owner("/usr/program"), "/usr/program", "/usr/program belongs to user 4711"},
		"a link to another user's":  {owner("/opt/bin"), "/usr/program", "/opt/bin belongs to user 4711"},
		"a link by another user's":  {owner("/home/link"), "/usr/by", "/home/link belongs to user 4711"},
		"links that lead in circle": {mode(file, 0o755), "/usr/circle", "has too many links"},
		"nothing":                   {mode(file, 0o755), "/opt/none", "cannot check /opt/none: "},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Root(t)
			for _, dir := range []string{"/opt/bin", "/usr", "/home"} {
				require.NoError(t, r.MkdirAll(dir, 0o755))
			}
			require.NoError(t, r.WriteFile(file, nil, 0o755))
			for link, to := range map[string]string{"/usr/program": "../opt/bin/program", "/bin": "opt/bin", "/usr/by": "/home/link", "/home/link": "/opt/bin/program", "/usr/circle": "circle"} {
				hosttest.Link(t, r, link, to)
			}
			c.change(t, r)
			err := r.OnlyRoot(c.path)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
