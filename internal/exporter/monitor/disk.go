package monitor

import (
	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/host"
)

// Disk is the file system that a worker keeps its volumes on, in bytes.
type Disk struct {
	Size float64
	Free float64 // for users other than root
}

// readDisk asks for the file system of a folder; nil where there is none to ask for.
func readDisk(root host.Root, folder string) *Disk {
	var st unix.Statfs_t
	if folder == "" || unix.Statfs(root.Path(folder), &st) != nil || st.Blocks == 0 {
		return nil
	}
	return &Disk{Size: float64(st.Blocks) * float64(st.Bsize), Free: float64(st.Bavail) * float64(st.Bsize)}
}
