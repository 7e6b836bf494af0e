//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// task makes a container as Concourse does, by the wrapper, which leases, and real runc:
// its first process waits, and the work comes by exec. With an error it was refused. end
// takes the container away, otherwise the end of the test does.
func task(t *testing.T, id string, env ...string) (end func(), err error) {
	t.Helper()
	bundle := rootFolder(t, id)
	out, err := runIn(bundle, "runc", "spec")
	require.NoError(t, err, out)
	file := filepath.Join(bundle, "config.json")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var c map[string]any
	require.NoError(t, json.Unmarshal(data, &c))
	process := c["process"].(map[string]any)
	process["terminal"], process["args"], process["env"] = false, []string{"/tmp/gdn-init"}, append([]string{"PATH=/bin"}, env...)
	c["linux"].(map[string]any)["cgroupsPath"] = filepath.Join("/", filepath.Base(dir), id)
	c["mounts"] = append(c["mounts"].([]any), map[string]any{"destination": "/tmp/build/0badcafe", "type": "bind", "source": filepath.Join(bundle, "volume"), "options": []string{"bind", "rw"}})
	data, err = json.Marshal(c)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o600))

	end = func() {
		said, err := wrapper(bundle, "delete", "--force", id)
		require.NoError(t, err, said)
	}
	t.Cleanup(end)
	if said, err := wrapper(bundle, "create", "--bundle", bundle, "--pid-file", bundle+"/pid", id); err != nil {
		return end, fmt.Errorf("%w: %s", err, said)
	}
	for _, words := range [][]string{{"start", id}, {"exec", "--detach", id, "/bin/busybox", "sleep", "100000"}} {
		said, err := wrapper(bundle, words...)
		require.NoError(t, err, said)
	}
	return end, nil
}

// rootFolder makes a bundle's folder with a root of busybox, and an init as Concourse's.
func rootFolder(t *testing.T, id string) string {
	t.Helper()
	bundle := filepath.Join(dir, id)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(bundle)) })
	root := filepath.Join(bundle, "rootfs")
	for _, folder := range []string{root + "/bin", root + "/tmp/build/0badcafe", bundle + "/volume"} {
		require.NoError(t, os.MkdirAll(folder, 0o755))
	}
	busybox, err := exec.LookPath("busybox")
	require.NoError(t, err)
	out, err := runIn(bundle, "cp", busybox, root+"/bin/busybox")
	require.NoError(t, err, out)
	require.NoError(t, os.Symlink("busybox", root+"/bin/sh"))
	require.NoError(t, os.WriteFile(root+"/tmp/gdn-init", []byte("#!/bin/sh\nexec /bin/busybox sleep 100000\n"), 0o755))
	return bundle
}

// wrapper calls it as containerd's shim does, by the name that it has there. What the container runs writes nowhere: a
// pipe would be open as long as it runs.
func wrapper(bundle string, words ...string) (said string, err error) {
	log := filepath.Join(bundle, "log.json")
	c := exec.Command(filepath.Join(dir, "concourse/runc"), append([]string{"--root", "/run/tasks/concourse", "--log", log, "--log-format", "json"}, words...)...)
	c.Dir = bundle
	err = c.Run()
	data, _ := os.ReadFile(log)
	return string(data), err
}

func runIn(folder string, argv ...string) (string, error) {
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir = folder
	out, err := c.CombinedOutput()
	return string(out), err
}
