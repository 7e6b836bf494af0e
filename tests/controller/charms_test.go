//go:build controller

package controller

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	// What is tested is built by go build, which go test knows nothing of: this
	// makes a changed charm a reason to run these tests again.
	_ "github.com/fourdollars/concourse-ci-machine/internal/charm/command/cli"
	suites "github.com/fourdollars/concourse-ci-machine/tests/suite"
	"github.com/fourdollars/concourse-ci-machine/tools/charmpack"
)

// packCharms packs the project's charm twice, as version "first" and "second", once
// for this Juju to take over with, as "takeover", and once without an endpoint, as "older".
// It also packs the stand-ins of Charmhub's charms.
func packCharms(t *testing.T, dir string) {
	t.Helper()
	bin := t.TempDir() + "/"
	build(t, "-o", bin, "./src/...", "github.com/canonical/pebble/cmd/pebble")
	require.NoError(t, suites.Driver(bin))
	for _, version := range []string{"first", "second", "takeover"} {
		var said strings.Builder
		require.Zero(t, charmpack.Run([]string{"pack", "-root", "../..", "-bin", bin, "-arch", runtime.GOARCH, "-version", version,
			"-takeover=" + strconv.FormatBool(version == "takeover"), "-o", filepath.Join(dir, version, charmName)}, &said, &said), said.String())
	}
	withMetadata(t, filepath.Join(dir, "first", charmName), withoutEndpoint(t, "tracing"), filepath.Join(dir, "older", charmName))
	for _, name := range []string{"controller", "postgresql"} {
		zipTree(t, "testdata/charms/"+name, filepath.Join(dir, name+".charm"))
	}
}

// withoutEndpoint returns the charm's metadata without a required endpoint.
func withoutEndpoint(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("../../metadata.yaml")
	require.NoError(t, err)
	var all map[string]any
	require.NoError(t, yaml.Unmarshal(data, &all))
	requires := all["requires"].(map[string]any)
	require.Contains(t, requires, name)
	delete(requires, name)
	data, err = yaml.Marshal(all)
	require.NoError(t, err)
	return data
}

// withMetadata copies a charm with another metadata.yaml. Hooks of endpoints that it lacks
// are never run, and Juju reads no other file of it.
func withMetadata(t *testing.T, charm string, metadata []byte, file string) {
	t.Helper()
	in, err := zip.OpenReader(charm)
	require.NoError(t, err)
	defer in.Close()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	out, err := os.Create(file)
	require.NoError(t, err)
	z := zip.NewWriter(out)
	for _, f := range in.File {
		if f.Name != "metadata.yaml" {
			require.NoError(t, z.Copy(f))
			continue
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Deflate, ExternalAttrs: f.ExternalAttrs, CreatorVersion: f.CreatorVersion})
		require.NoError(t, err)
		_, err = w.Write(metadata)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	require.NoError(t, out.Close())
}

// charmName is the name of the charm from `make charm`.
var charmName = "concourse-ci-machine_" + runtime.GOARCH + ".charm"

// build builds programs of the project, from its root.
func build(t *testing.T, args ...string) {
	t.Helper()
	c := exec.Command("go", append([]string{"build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w"}, args...)...)
	c.Dir, c.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%v: %s", args, out)
}

// zipTree packs a charm: a zip in which modes count.
func zipTree(t *testing.T, dir, file string) {
	t.Helper()
	out, err := os.Create(file)
	require.NoError(t, err)
	z := zip.NewWriter(out)
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		h, err := zip.FileInfoHeader(info)
		if err != nil {
			return err
		}
		h.Name = strings.TrimPrefix(path, dir+"/")
		w, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		_, err = io.Copy(w, in)
		return err
	}))
	require.NoError(t, z.Close())
	require.NoError(t, out.Close())
}
