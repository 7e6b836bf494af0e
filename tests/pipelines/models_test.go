package pipelines

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The task of fill-models.yml runs as it is, with a stand-in for hf, which is Hugging Face's.
func TestModelsAreFilledIntoTheFolder(t *testing.T) {
	var p pipeline
	read(t, filepath.Join(dir, "fill-models.yml"), &p)
	plan := p.Jobs[0].Plan
	script := plan[len(plan)-1].Config.Run.Args[1]
	const hf = "#!/bin/sh\n" + `[ "$2" != no/such ] || { echo "no such model" >&2; exit 3; }
mkdir -p -m 700 "$HF_HOME/hub/models--a--b" && echo "$@" >"$HF_HOME/hub/models--a--b/asked" && chmod 600 "$HF_HOME/hub/models--a--b/asked"
`
	for name, tt := range map[string]struct{ model, folder, fails string }{
		"a model":       {"a/b", "hub_rw", ""},
		"no such model": {"no/such", "hub_rw", "no such model"},
		"no folder":     {"a/b", "other_rw", "FAILED: no "},
	} {
		t.Run(name, func(t *testing.T) {
			srv, bin := t.TempDir(), t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(srv, "hub_rw"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(bin, "hf"), []byte(hf), 0o755))
			c := exec.Command("sh", "-ec", strings.ReplaceAll(script, "/srv/", srv+"/"))
			c.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "FOLDER=" + tt.folder, "MODEL=" + tt.model, "REVISION=abc"}
			out, err := c.CombinedOutput()
			if tt.fails != "" {
				require.Error(t, err)
				require.Contains(t, string(out), tt.fails)
				return
			}
			require.NoError(t, err, "%s", out)
			asked := filepath.Join(srv, "hub_rw/hub/models--a--b/asked")
			text, err := os.ReadFile(asked)
			require.NoError(t, err)
			require.Equal(t, "download a/b --revision abc\n", string(text))
			st, err := os.Stat(asked)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o644), st.Mode().Perm(), "the tasks of other users can read it")
		})
	}
}
