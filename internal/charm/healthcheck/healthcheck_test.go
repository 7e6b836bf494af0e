package healthcheck

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const (
	slot    = "0000:43:00.0"
	command = "/srv/tools/check"
	runc    = "/opt/release/bin/runc"
)

// ready returns a unit with four GPUs that can run health checks.
func ready(t *testing.T) host.Root {
	t.Helper()
	r := hosttest.Host(t, "mi210x4")
	for _, dir := range []string{"/", "/srv", "/srv/tools", "/usr"} {
		require.NoError(t, r.MkdirAll(dir, 0o755))
		require.NoError(t, os.Chmod(r.Path(dir), 0o755))
	}
	require.NoError(t, r.WriteFile(command, []byte("#!/bin/sh\n"), 0o755))
	hosttest.Link(t, r, "/bin", "usr/bin")
	hosttest.Put(t, r, oci.DefaultConfig, `{"runtime":"`+runc+`"}`)
	hosttest.Put(t, r, runc, "")
	inv, err := gpu.Discover(r)
	require.NoError(t, err)
	spec, left, err := cdi.Spec(inv.GPUs, inv.KFD)
	require.NoError(t, err)
	require.Empty(t, left)
	data, err := json.Marshal(spec)
	require.NoError(t, err)
	hosttest.Put(t, r, cdi.Path, string(data))
	return r
}

func TestContainerHasSystemProgramsAndOneGPU(t *testing.T) {
	r := ready(t)
	j, err := prepared(r, slot, command)
	require.NoError(t, err)
	require.Equal(t, r.Path(runc), j.Runc)
	j.Recursive = true
	s, err := j.spec(findTree(r, command))
	require.NoError(t, err)
	data, err := json.MarshalIndent(s, "", "  ")
	require.NoError(t, err)
	hosttest.Golden(t, "testdata/config.golden.json", string(data)+"\n")

	// A system program needs no folder of /srv, and nodes open to all users need no group.
	for _, n := range j.Devices {
		*n.FileMode = 0o666
	}
	j.Command = "/usr/bin/check"
	s, err = j.spec(findTree(r, j.Command))
	require.NoError(t, err)
	require.Empty(t, s.Process.User.AdditionalGids)
	for _, m := range s.Mounts {
		require.False(t, strings.HasPrefix(m.Destination, "/srv"))
	}
}

// Each reason other than the GPU names the remedy.
func TestMissingRequirementIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r host.Root) error
		want   string
	}{
		"no file":               {func(r host.Root) error { return r.Remove(command) }, "/srv/tools/check is missing; add it, or remove it from the option gpu-health-check"},
		"a folder":              {func(r host.Root) error { _ = r.Remove(command); return r.MkdirAll(command, 0o755) }, "/srv/tools/check is not a file"},
		"not executable":        {func(r host.Root) error { return os.Chmod(r.Path(command), 0o644) }, "/srv/tools/check can't be executed by everybody; chmod 755 it"},
		"for root alone":        {func(r host.Root) error { return os.Chmod(r.Path(command), 0o700) }, "/srv/tools/check can't be executed by everybody; chmod 755 it"},
		"a group's":             {func(r host.Root) error { return os.Chmod(r.Path(command), 0o775) }, "/srv/tools/check can be written by others than root; chmod go-w it"},
		"a folder of all":       {func(r host.Root) error { return os.Chmod(r.Path("/srv/tools"), 0o757) }, "/srv/tools can be written by others than root; chmod go-w it"},
		"a closed folder":       {func(r host.Root) error { return os.Chmod(r.Path("/srv/tools"), 0o700) }, "/srv/tools is closed to other users; chmod 755 it"},
		"no wrapper yet":        {func(r host.Root) error { return r.Remove(oci.DefaultConfig) }, "/etc/concourse-ci-machine/wrapper.json is missing: tasks get no GPU on this unit yet; see its status"},
		"a damaged one":         {func(r host.Root) error { return r.WriteFile(oci.DefaultConfig, []byte("{"), 0o600) }, "cannot decode /etc/concourse-ci-machine/wrapper.json; the next hook writes it again"},
		"no runc yet":           {func(r host.Root) error { return r.Remove(runc) }, "/opt/release/bin/runc is missing: Concourse is not installed yet; see the unit's status"},
		"no description":        {func(r host.Root) error { return r.Remove(cdi.Path) }, "cannot read which nodes GPU 1 has: "},
		"an old one":            {func(r host.Root) error { return r.WriteFile(cdi.Path, []byte(`{"devices":[{"name":"1"}]}`), 0o644) }, "cannot find GPU 1 with its node /dev/dri/renderD129 in /etc/cdi/amd.json: it is described again within a minute"},
		"a damaged description": {func(r host.Root) error { return r.WriteFile(cdi.Path, []byte("{"), 0o644) }, "cannot decode /etc/cdi/amd.json: "},
		"a GPU without a node":  {func(r host.Root) error { return r.Remove("/dev/dri/renderD129") }, "GPU 0000:43:00.0 has no node that can be used; the command gpu list shows why"},
		"a link": {func(r host.Root) error {
			_ = r.Remove(command)
			return os.Symlink("other", r.Path(command))
		}, "/srv/tools/check is a link; name its target in gpu-health-check"},
	} {
		r := ready(t)
		require.NoError(t, c.change(r), name)
		_, err := prepared(r, slot, command)
		require.ErrorContains(t, err, c.want, name)
	}
}

var began = time.Date(2026, 8, 1, 14, 0, 0, 0, time.UTC)

func TestResultIsReadAfterTheHealthCheck(t *testing.T) {
	r := hosttest.Root(t)
	p, err := Read(r, slot)
	require.NoError(t, err)
	require.Equal(t, quarantine.HealthCheck{Name: slot}, p)
	unlock, err := Lock(r, slot)
	require.NoError(t, err)
	_, err = Lock(r, slot)
	require.ErrorIs(t, err, host.ErrLocked)
	want := quarantine.HealthCheck{Name: slot, Command: command, Began: began, Ended: began.Add(time.Minute), End: quarantine.Failed, Exit: 3}
	require.NoError(t, Write(r, want))
	p, err = Read(r, slot)
	require.NoError(t, err)
	require.True(t, p.Running)
	unlock()
	p, err = Read(r, slot)
	require.NoError(t, err)
	require.Equal(t, want, p)
	other, err := Read(r, "0000:83:00.0")
	require.NoError(t, err)
	require.Empty(t, other.End)
	for _, path := range []string{resultFile(slot).Path, lockFile(slot)} {
		st, err := r.Stat(path)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, st.Mode().Perm())
	}
	st, err := r.Stat(Dir)
	require.NoError(t, err)
	require.EqualValues(t, 0o700, st.Mode().Perm())

	for _, text := range []string{"", "{", `{"gpu":"0000:83:00.0","end":"passed"}`, `{"gpu":"` + slot + `","end":"well"}`} {
		hosttest.Put(t, r, resultFile(slot).Path, text)
		p, err = Read(r, slot)
		require.NoError(t, err)
		require.Equal(t, quarantine.HealthCheck{Name: slot}, p, "a damaged result is none: %.40s", text)
	}
}

func TestOutputIsPrintableAndBounded(t *testing.T) {
	require.Equal(t, "a\tb\n?[31mred?[0m ? é\n", printable("a\tb\n\x1b[31mred\x1b[0m \xff é\n", 100))
	require.Equal(t, "é", printable("éé", 3), "no half of a letter")
	require.NoError(t, WriteOutput(host.Root(t.TempDir()), slot, "x"))
}

func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"gpu":"` + slot + `","end":"not_run","reason":"x","began":"2026-08-01T14:00:00Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := resultFile(slot).Decode(data)
		if p.End != "" && (err != nil || p.Name != slot) {
			t.Errorf("%q became %+v, %v", data, p, err)
		}
	})
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[2J\xff\n", 4)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		if got := printable(s, limit&0xfff); len(got) > limit&0xfff || bytes.ContainsAny([]byte(got), "\x1b\r\x00\x7f") {
			t.Errorf("%q became %q", s, got)
		}
	})
}

// prepared prepares a health check on a unit.
func prepared(r host.Root, name, command string) (j Job, err error) {
	runtime, err := Runtime(r)
	if err != nil {
		return j, err
	}
	return Prepare(r, runtime, name, command)
}
