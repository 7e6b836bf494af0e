//go:build e2e

package scripts

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const secondBox = "juju-4f2a10-1" // the container of rocm-worker/1

// folderWorld has an application of two units, and a folder of the host.
func folderWorld(t *testing.T) (w *world, folder string) {
	w = newWorld(t)
	w.Apps["rocm-worker"] = &application{Units: 2}
	folder = w.dir + "/host data"
	require.NoError(t, os.Mkdir(folder, 0o755))
	return w, folder
}

func TestMountFolder(t *testing.T) {
	for name, c := range map[string]struct {
		target string
		flags  []string
		path   string
		device string
		only   bool // for reading
		boxes  []string
	}{
		"one unit":            {"rocm-worker/1", []string{"--name", "models"}, "/srv/models", "srv-models", true, []string{secondBox}},
		"the leader":          {"rocm-worker/leader", []string{"--name=models"}, "/srv/models", "srv-models", true, []string{box}},
		"all units":           {"rocm-worker", []string{"--name=models"}, "/srv/models", "srv-models", true, []string{box, secondBox}},
		"one to be written":   {"rocm-worker/0", []string{"--name=a.cache_rw"}, "/srv/a.cache_rw", "srv-a-cache-rw", false, []string{box}},
		"one for the results": {"rocm-worker/0", []string{"--name=x_writable"}, "/srv/x_writable", "srv-x-writable", false, []string{box}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, folder := folderWorld(t)
			run := func(more ...string) result {
				r := w.run(t, "mount-folder.sh", append(append([]string{c.target, folder}, c.flags...), more...)...)
				require.Zero(t, r.code, r.err)
				return r
			}
			dry := run("--dry-run")
			require.Empty(t, dry.called("lxc config"), "a dry run changes nothing")
			require.Equal(t, dry.out, run().out)
			want := map[string]string{"type": "disk", "source": folder, "path": c.path}
			if c.only {
				want["readonly"] = "true"
			}
			require.Len(t, w.Devices, len(c.boxes))
			for _, b := range c.boxes {
				require.Equal(t, map[string]map[string]string{c.device: want}, w.Devices[b])
			}
			again := run()
			require.Empty(t, again.out)
			require.Contains(t, again.err, "nothing to change")
			run("--remove")
			for _, b := range c.boxes {
				require.Empty(t, w.Devices[b])
				require.Empty(t, w.Config[b])
			}
			require.Contains(t, run("--remove").err, "nothing at "+c.path+" that this script added")
		})
	}
}

func TestMountFolderLeavesOthersAlone(t *testing.T) {
	w, folder := folderWorld(t)
	theirs := map[string]string{"type": "disk", "source": "/other", "path": "/srv/models"}
	w.Devices[box] = map[string]map[string]string{"data": theirs}
	r := w.run(t, "mount-folder.sh", "rocm-worker/0", folder, "--name=models")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, box+" has /other at /srv/models, not "+folder+"; look at it: lxc config device show "+box)
	r = w.run(t, "mount-folder.sh", "rocm-worker/0", folder, "--name=models", "--remove")
	require.Zero(t, r.code, r.err)
	require.Equal(t, theirs, w.Devices[box]["data"])
	w.Devices[box] = map[string]map[string]string{"srv-models": gpu0}
	r = w.run(t, "mount-folder.sh", "rocm-worker/0", folder, "--name=models")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "another device of the name srv-models")
}

func TestFoldersRefuse(t *testing.T) {
	for script, args := range map[string][]string{"mount-folder.sh": {"--name=a"}, "share-storage.sh": nil} {
		w, folder := folderWorld(t)
		for target, want := range map[string]string{"rocm-worker/0": "there is no folder /no/such on this host; make it: ", "web": "there is no application web with units in this model"} {
			dir := map[string]string{"rocm-worker/0": "/no/such", "web": folder}[target]
			r := w.run(t, script, append([]string{target, dir}, args...)...)
			require.Equal(t, 1, r.code, r.out)
			require.Contains(t, r.err, want)
			require.Empty(t, r.called("lxc config"))
		}
	}
}

func TestShareStorage(t *testing.T) {
	w, folder := folderWorld(t)
	run := func(more ...string) result {
		r := w.run(t, "share-storage.sh", append([]string{"rocm-worker", folder}, more...)...)
		require.Zero(t, r.code, r.err)
		return r
	}
	const touch = "lxc exec " + box + " -- touch /var/lib/concourse/.lxc_shared_storage\n"
	dry := run("--dry-run")
	require.Contains(t, dry.out, touch)
	require.Empty(t, dry.called("lxc config"))
	r := run()
	require.Equal(t, 1, strings.Count(r.out, touch))
	require.Equal(t, 1, strings.Count(r.out, "touch"), "the marker is made once: %s", r.out)
	for _, b := range []string{box, secondBox} {
		require.Equal(t, map[string]map[string]string{"shared-storage": {"type": "disk", "source": folder, "path": "/var/lib/concourse", "shift": "true"}}, w.Devices[b])
	}
	require.Empty(t, run().out, "the second run")

	w.Apps["rocm-worker"].Units++
	r = run()
	require.Equal(t, []string{"lxc config device add juju-4f2a10-2 shared-storage disk source=" + folder + " path=/var/lib/concourse shift=true"}, r.called("lxc config device add"))

	require.NoError(t, os.Remove(w.dir+"/storage/.lxc_shared_storage"))
	require.Equal(t, touch, run().out, "a marker that is lost comes back")
	run("--remove")
	require.Empty(t, w.Devices[box])
	require.Empty(t, w.Config[box])
}

func TestVerifyMarkerFindsAnotherVolume(t *testing.T) {
	w := kept(t)
	r := w.run(t, "deploy-test.sh", "--steps=verify-marker")
	require.Equal(t, map[string]string{"verify-marker": "skipped"}, table(r.out))
	w.Model = "concourse-test-auto-lxc"
	r = w.run(t, "deploy-test.sh", "--steps=verify-marker", "--shared-storage=lxc")
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "error: not so: all units have the volume's marker")
}
