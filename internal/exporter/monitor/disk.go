package monitor

import (
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// Disk describes the file system that holds a worker's volumes, in bytes.
type Disk struct {
	Size float64
	Free float64 // for users other than root
}

// readDisk reads the size of the file system of a folder. It returns nil without a folder
// or if the file system has no blocks.
func readDisk(root host.Root, folder string) *Disk {
	var st unix.Statfs_t
	if folder == "" || unix.Statfs(root.Path(folder), &st) != nil || st.Blocks == 0 {
		return nil
	}
	return &Disk{Size: float64(st.Blocks) * float64(st.Bsize), Free: float64(st.Bavail) * float64(st.Bsize)}
}
