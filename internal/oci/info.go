package oci

import (
	"fmt"
	"io"

	"concourse-ci-machine/internal/base/version"
)

// infoCommand prints what a person who looks for a cause wants to know.
const infoCommand = "wrapper-info"

func (w *wrapper) info(out io.Writer) {
	fmt.Fprintf(out, "runc-amd-wrapper %s\nconfig %s\n", version.Version, w.config)
	c, err := w.readConfig()
	if err != nil {
		fmt.Fprintf(out, "problem %v\n", err)
		return
	}
	fmt.Fprintf(out, "runtime %s\n", c.Runtime)
	for _, d := range c.Devices {
		fmt.Fprintf(out, "device %s for %s\n", d, c.Containers)
	}
	if c.Leases != nil {
		fmt.Fprintf(out, "leases in %s\n", c.Leases.Dir)
	}
	if c.Folders == nil {
		return
	}
	mounts, skipped, err := w.folderMounts(*c.Folders)
	if err != nil {
		fmt.Fprintf(out, "problem %v\n", err)
	}
	for _, m := range mounts {
		fmt.Fprintf(out, "folder %s %s for %s\n", m.Source, m.Options[1], c.Folders.Containers)
	}
	for _, why := range skipped {
		fmt.Fprintf(out, "left out %s\n", why)
	}
}
