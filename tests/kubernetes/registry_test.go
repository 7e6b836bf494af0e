//go:build kubernetes

package kubernetes

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const registryAddress = "127.0.0.1:5000"

// probe opens each GPU's node for reading and writing, reports which open, and then waits
// to be ended. The shell would make a file if none exists.
const probe = `for d in /dev/kfd /dev/dri/renderD*; do
  if [ -e "$d" ]; then if (: 3<>"$d") 2>/dev/null; then echo "$d"; else echo "closed:$d"; fi; fi
done
echo done
trap 'exit 0' TERM
/bin/busybox sleep 100000 & wait`

const (
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// serveImages is a registry where every name is an image of busybox, and its rocminfo and
// GitHub's runner are the probe.
func serveImages(t *testing.T) {
	t.Helper()
	blobs := map[string][]byte{}
	add := func(kind string, data []byte) map[string]any {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
		blobs[digest] = data
		return map[string]any{"mediaType": kind, "digest": digest, "size": len(data)}
	}
	encode := func(v any) []byte {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		return data
	}
	layer := add(typeLayer, layerOf(t))
	config := add(typeConfig, encode(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Cmd": []string{"rocminfo"}, "Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{layer["digest"]}},
	}))
	manifest := add(typeManifest, encode(map[string]any{"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []any{layer}}))

	listener, err := net.Listen("tcp", registryAddress)
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		digest := path.Base(r.URL.Path)
		if strings.HasPrefix(path.Base(path.Dir(r.URL.Path)), "manifests") {
			digest = manifest["digest"].(string)
			w.Header().Set("Content-Type", typeManifest)
		}
		data, ok := blobs[digest]
		if !ok && r.URL.Path != "/v2/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Docker-Content-Digest", digest)
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data) // containerd reports what it misses
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { require.NoError(t, server.Close()) })
}

func layerOf(t *testing.T) []byte {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	require.NoError(t, err)
	data, err := os.ReadFile(busybox)
	require.NoError(t, err)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}))
	_, err = w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "bin/sh", Linkname: "busybox", Typeflag: tar.TypeSymlink}))
	script := "#!/bin/sh\n" + probe
	for _, name := range []string{"bin/rocminfo", "home/runner/run.sh"} { // the second is of GitHub's runner
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(script)), Typeflag: tar.TypeReg}))
		_, err = w.Write([]byte(script))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return layer.Bytes()
}
