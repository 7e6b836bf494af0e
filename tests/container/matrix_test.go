//go:build e2e

package container

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"

	"github.com/stretchr/testify/require"
)

const absent = "absent"

var (
	selected = map[string]string{"kfd": "opens", "dri/renderD128": "opens", "dri/renderD129": absent}
	nothing  = map[string]string{"kfd": absent, "dri/renderD128": absent, "dri/renderD129": absent}
)

// setting is one way in which a container can stand to its host's users.
type setting struct {
	name string
	lxd  bool // on a machine that refuses new device nodes
	maps []idMap
}

var settings = []setting{
	{"privileged", false, nil},
	{"user namespace of Concourse", false, concourse},
	{"docker-like mapping", false, []idMap{{0, 100000, 65536}}},
	{"inside LXD, privileged", true, nil},
	{"inside LXD, Concourse's", true, concourseNested},
}

func (s setting) bed(t *testing.T, runc string, mode os.FileMode) *bed {
	var b *bed
	if s.lxd {
		b = nested(t, mode, 992)
	} else {
		b = newBed(t, mode)
	}
	b.maps = s.maps
	b.use(runc)
	return b
}

// runcs are the real runcs by version: Debian's, and one of a later line.
func runcs(t *testing.T) map[string]string {
	t.Helper()
	need(t)
	debian, err := exec.LookPath("runc")
	require.NoError(t, err)
	found := map[string]string{}
	for _, path := range []string{debian, os.Getenv(laterEnv)} {
		if path == "" {
			t.Log("without runc ", laterRunc)
			continue
		}
		out, err := exec.Command(path, "--version").Output()
		require.NoError(t, err)
		first, _, _ := strings.Cut(string(out), "\n")
		version, _, _ := strings.Cut(strings.TrimPrefix(first, "runc version "), "+")
		if path == os.Getenv(laterEnv) {
			version = laterRunc
		}
		found[version] = path
	}
	return found
}

// D44: every task got all GPUs. D47: mounts without cgroup rules opened none.
// Selected GPU and kfd open, the other is not there, and the host's nodes stay
// as they are (the bed's cleanup looks at mode and owner): each cell of the
// table that a run with -v prints.
func TestMatrixOfContainersAndUsers(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "container\trunc\thost node\tinit uid 0\texec uid 0\tinit uid 1000\texec uid 1000\texec uid 54321\tcheck\tget\thost node after")
	for version, runc := range runcs(t) {
		for _, s := range settings {
			for _, mode := range []os.FileMode{0o660, 0o666} {
				cells := []string{s.name, version, fmt.Sprintf("%04o", mode)}
				for _, uid := range []int{0, 1000} {
					t.Run(fmt.Sprintf("%s, runc %s, node %o, uid %d", s.name, version, mode, uid), func(t *testing.T) {
						b := s.bed(t, runc, mode)
						b.uid = uid
						cells = append(cells, cell(t, selected, b.start(), "init"), cell(t, selected, b.exec(uid), "exec"))
						if uid != 0 {
							cells = append(cells, cell(t, selected, b.exec(54321), "exec by a user of no name"))
						}
					})
				}
				for _, kind := range []string{"check", "get"} {
					t.Run(fmt.Sprintf("%s, runc %s, node %o, %s", s.name, version, mode, kind), func(t *testing.T) {
						b := s.bed(t, runc, mode)
						b.kind = kind
						cells = append(cells, cell(t, nothing, b.start(), kind))
					})
				}
				var st syscall.Stat_t // the cleanup has compared it with what it was
				require.NoError(t, syscall.Lstat(suite.StandIns[1], &st))
				cells = append(cells, fmt.Sprintf("%04o %d:%d", st.Mode&0o7777, st.Uid, st.Gid))
				fmt.Fprintln(w, strings.Join(cells, "\t"))
			}
		}
	}
	require.NoError(t, w.Flush())
	t.Log("\n" + table.String())
}

// cell is what a container found, in short: the selected GPU / the other one.
func cell(t *testing.T, want, got map[string]string, what string) string {
	t.Helper()
	require.Equal(t, want, got, what)
	if got["kfd"] == absent {
		return "nothing"
	}
	return got["dri/renderD128"] + " / " + got["dri/renderD129"]
}
