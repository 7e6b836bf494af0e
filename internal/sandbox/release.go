package sandbox

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
)

// StandInRelease writes a tarball with the layout of a Concourse release whose
// programs print a version and do nothing else. It lets the charm's own code
// unpack and switch a release where no real one is at hand.
func StandInRelease(path, version string) error {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	add := func(name string, mode int64, data string) error {
		h := &tar.Header{Name: "concourse/" + name, Mode: mode, Size: int64(len(data)), Typeflag: tar.TypeReg}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err := t.Write([]byte(data))
		return err
	}
	for _, name := range []string{"concourse", "containerd", "containerd-shim-runc-v2", "runc", "init"} {
		script := fmt.Sprintf("#!/bin/sh\n# A stand-in of a Concourse release: it knows its version only.\necho %s\n", version)
		if err := add("bin/"+name, 0o755, script); err != nil {
			return err
		}
	}
	if err := add("resource-types/mock/resource_metadata.json", 0o644, `{"type":"mock","version":"0"}`+"\n"); err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
