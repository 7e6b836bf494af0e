// Command images writes an OCI image with the programs for a node of Kubernetes, for amd64 and
// arm64, as one archive that containerd, Podman and skopeo read. The same programs give the
// same bytes: times are fixed, and files are sorted. It needs no container engine, uses no
// network and signs nothing.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// programs are in the root of the image. The first is its entry point.
var programs = []string{"gpu-device-plugin", "gpu-dra-driver", "rocm-exporter", "gpukit"}

// at is the time of all files. No real time is in the archive.
var at = time.Unix(0, 0).UTC()

func main() {
	bin := flag.String("bin", "", "`folder` that has the programs in a folder of each architecture")
	name := flag.String("name", "", "`reference` of the image, such as registry.example/gpu-node:1.0.0")
	out := flag.String("o", "", "`file` to write")
	flag.Parse()
	if err := run(*bin, *name, *out, strings.Split("amd64 arm64", " ")); err != nil {
		fmt.Fprintln(os.Stderr, "cannot make the image:", err)
		os.Exit(1)
	}
}

func run(bin, name, out string, archs []string) error {
	if bin == "" || name == "" || out == "" || flag.NArg() > 0 {
		return errors.New("want -bin, -name and -o; see --help")
	}
	images := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range archs {
		image, err := imageOf(filepath.Join(bin, arch), arch)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		images = mutate.AppendManifests(images, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// containerd reads the first annotation, others the second.
	_, tag, _ := strings.Cut(filepath.Base(name), ":")
	err = path.AppendIndex(images, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}))
	if err != nil {
		return err
	}
	return archive(dir, out)
}

// imageOf returns the image of one architecture: a layer with the programs, and nothing else.
func imageOf(bin, arch string) (v1.Image, error) {
	data, err := layerOf(bin)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: at}
	config.Config = v1.Config{Entrypoint: []string{"/" + programs[0]}, Env: []string{"PATH=/"}}
	for i := range config.History {
		config.History[i].Created = v1.Time{Time: at}
	}
	return mutate.ConfigFile(image, config)
}

// layerOf returns a tar with the programs of a folder.
func layerOf(bin string) ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, name := range slices.Sorted(slices.Values(programs)) {
		data, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil {
			return nil, err
		}
		if err := write(w, name, 0o755, data); err != nil {
			return nil, err
		}
	}
	return layer.Bytes(), w.Close()
}

func write(w *tar.Writer, name string, mode int64, data []byte) error {
	h := tar.Header{Name: name, Mode: mode, Size: int64(len(data)), ModTime: at, Typeflag: tar.TypeReg}
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// archive writes the files of a folder, sorted, into a tar that is complete or missing.
func archive(dir, out string) error {
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return write(w, filepath.ToSlash(name), 0o644, data)
	})
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(out+".new", all.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(out+".new", out)
}
