// Package standin is a Concourse release for the end-to-end tests that are given none:
// containerd and runc are this machine's own, and its program concourse is from the folder
// beside it. It contains no test.
package standin

import (
	"archive/tar"
	"compress/gzip"
	"os"
	"os/exec"
)

// Release writes a tarball with the layout of a release around the program.
func Release(file, program string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	z, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	add := func(name string, mode int64, data []byte) error {
		if err := w.WriteHeader(&tar.Header{Name: "concourse/" + name, Mode: mode, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	}
	for _, name := range []string{"concourse", "containerd", "containerd-shim-runc-v2", "runc"} {
		path := program
		if name != "concourse" {
			if path, err = exec.LookPath(name); err != nil {
				return err
			}
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := add("bin/"+name, 0o755, data); err != nil {
			return err
		}
	}
	if err := add("resource-types/mock/resource_metadata.json", 0o644, []byte(`{"type":"mock","version":"0"}`+"\n")); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return out.Close()
}
