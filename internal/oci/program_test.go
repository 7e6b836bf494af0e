package oci

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline"
)

func TestProgramDigestFollowsWhatRunsAndNoName(t *testing.T) {
	b := exclusive(t)
	s, err := b.wrapper.readConfig()
	require.NoError(t, err)
	image, pidFile, owner := "4f1c", "task.pid", false
	digest := func(dir string, args ...string) string {
		data, err := json.Marshal(map[string]any{"cwd": dir, "args": args, "env": []string{"SECRET=" + dir}})
		require.NoError(t, err)
		b.put(t, "process", string(data))
		c := &cmdline.Call{Command: "exec", PidFile: b.path(pidFile)}
		c.Process.Value = b.path("process")
		k := marker{lease: heldLease{gpus: []string{"GPU-1a2b"}, image: image, ownProcess: owner}}
		return b.wrapper.programDigest(s, c, k)
	}
	one := digest("/tmp/build/1c633350", "sh", "-c", "make test >/tmp/build/1c633350/log")
	require.NotEmpty(t, one)
	require.Equal(t, one, digest("/tmp/build/00000000", "sh", "-c", "make test >/tmp/build/00000000/log"),
		"the same in a task of another name")
	for name, other := range map[string]string{
		"another argument": digest("/tmp/build/1c633350", "sh", "-c", "make"),
		"another folder":   digest("/tmp/build/1c633350/src", "sh", "-c", "make test >/tmp/build/1c633350/log"),
	} {
		require.NotEmpty(t, other, name)
		require.NotEqual(t, one, other, name)
	}
	image = "77aa"
	require.NotEqual(t, one, digest("/tmp/build/1c633350", "sh", "-c", "make test >/tmp/build/1c633350/log"))

	pidFile = "5f6203fd-a0e2-4b19-b1ed-fa4388f52eb2.pid"
	require.Empty(t, digest("/", "sh"), "a session of fly intercept")
	pidFile, owner = "task.pid", true
	require.Empty(t, digest("/", "sh"), "a container of another engine")
	owner = false
	require.NoError(t, os.RemoveAll(b.path("leases")))
	b.put(t, "leases", "a file")
	require.Empty(t, digest("/", "sh"), "no key")
}

func TestImageDigestFollowsTheRootFileSystem(t *testing.T) {
	b := newTestbed(t)
	began := time.Unix(1700000000, 0)
	digest := func(root string, changed time.Time) string {
		for _, dir := range []string{"usr/bin", "usr/lib", "etc"} {
			require.NoError(t, os.MkdirAll(b.path(root+"/"+dir), 0o755))
		}
		b.put(t, root+"/etc/os-release", "ID=ubuntu\n")
		for _, path := range []string{"usr/bin", "usr/lib", "etc/os-release"} {
			require.NoError(t, os.Chtimes(b.path(root+"/"+path), changed, changed))
		}
		require.NoError(t, os.Chtimes(b.path(root+"/usr"), began, began))
		b.bundle(t, "task", func(spec map[string]any) { spec["root"] = map[string]any{"path": b.path(root)} })
		opened, err := openBundle(b.path("bundle"), b.wrapper.owner())
		require.NoError(t, err)
		defer opened.close()
		return opened.imageDigest(docOf(t, b))
	}
	one := digest("volume-1", began)
	require.NotEmpty(t, one)
	require.Equal(t, one, digest("volume-2", began), "another container of the image")
	require.NotEqual(t, one, digest("volume-3", began.Add(time.Second)))
}

// Whatever a process file holds, a digest of it is made or not.
func FuzzProgramTexts(f *testing.F) {
	f.Add([]byte(process))
	f.Add([]byte(`{"cwd":"/tmp/build/1c633350/a","args":["/tmp/build/","/tmp/build/1c63335"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		texts, err := programTexts(data)
		if err != nil {
			return
		}
		require.NotEmpty(t, texts)
		for _, text := range texts {
			for _, name := range []string{"00000000", "9f3a11c2"} {
				require.Equal(t, dropTaskName(taskFolders+"/"+text), dropTaskName(taskFolders+name+"/"+text))
			}
		}
	})
}

func docOf(t *testing.T, b *testbed) *rawjson.Doc {
	t.Helper()
	data, err := os.ReadFile(b.path("bundle/config.json"))
	require.NoError(t, err)
	doc, err := rawjson.Parse(data)
	require.NoError(t, err)
	return doc
}
