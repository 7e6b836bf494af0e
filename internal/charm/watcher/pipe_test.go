package watcher

import (
	"io"
	"path"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/pool/quarantine"
	"concourse-ci-machine/internal/pool/tasknotice"
)

// A pipe in the place of a state file keeps no look waiting. What the look writes itself it
// makes again.
func TestPipeInPlaceOfAStateFileHangsNoLook(t *testing.T) {
	for file, c := range map[string]struct{ again, fails bool }{
		quarantine.File:          {again: true},
		tasknotice.File:          {},
		model.FactsFile:          {},
		quarantine.AdmissionFile: {again: true},
		quarantine.EvidenceFile:  {},
		oci.DefaultConfig:        {fails: true},
	} {
		t.Run(file, func(t *testing.T) {
			u := served(t, "mi210x4")
			watched(t, u)
			require.NoError(t, u.Withhold(io.Discard, "0", "a fan"))
			require.NoError(t, u.Host.Remove(file))
			require.NoError(t, u.Host.MkdirAll(path.Dir(file), 0o755))
			require.NoError(t, unix.Mkfifo(u.Host.Path(file), 0o600))
			err := u.Look(t.Context(), io.Discard)
			if c.fails {
				require.ErrorContains(t, err, "not a regular file")
				return
			}
			require.NoError(t, err)
			if st, err := u.Host.Lstat(file); c.again {
				require.NoError(t, err)
				require.True(t, st.Mode().IsRegular())
			}
		})
	}
}
