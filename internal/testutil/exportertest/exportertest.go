// Package exportertest gives tests of the exporter one artificial GPU: its files, sensors
// and table, and files that hang. It contains no test.
package exportertest

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// The GPU's address and folder.
const (
	PCI = "0000:03:00.0"
	Dir = "/sys/devices/pci0000:00/" + PCI
)

// Put creates the GPU from files, with names relative to Dir.
func Put(t testing.TB, files map[string]string) host.Root {
	t.Helper()
	r := host.Root(t.TempDir())
	require.NoError(t, r.MkdirAll(Dir, 0o755))
	for name, content := range files {
		hosttest.Put(t, r, Dir+"/"+name, content)
	}
	return r
}

// Sensors returns hwmon's files of temperatures: label, degrees, limit (0: none).
func Sensors(all ...any) map[string]string {
	files := map[string]string{"gpu_busy_percent": "5\n", "hwmon/hwmon3/name": "amdgpu\n"}
	for i := 0; i < len(all); i += 3 {
		base := fmt.Sprintf("hwmon/hwmon3/temp%d_", i/3+1)
		files[base+"label"], files[base+"input"] = all[i].(string)+"\n", fmt.Sprintf("%d000\n", all[i+1])
		if limit := all[i+2].(int); limit > 0 {
			files[base+"crit"] = fmt.Sprintf("%d000\n", limit)
		}
	}
	return files
}

// Attribute describes an attribute of a Table: its number in package gpumetrics, and its
// values.
type Attribute struct {
	ID     int
	Values []uint64
}

// Table returns a gpu_metrics v1_9 of 64-bit numbers.
func Table(attributes ...Attribute) string {
	b := []byte{0, 0, 1, 9, byte(len(attributes)), 0, 0, 0}
	for _, a := range attributes {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(a.Values))|uint64(a.ID)<<10|6<<20)
		for _, v := range a.Values {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	binary.LittleEndian.PutUint16(b, uint16(len(b)))
	return string(b)
}

// FIFO replaces a file with a FIFO. A read of it hangs, as a read of a hung GPU does in the
// driver. The channel closes when a reader opens it. After that, end writes the value and
// ends the read.
func FIFO(t testing.TB, r host.Root, p string) (reached chan time.Time, end func(string)) {
	t.Helper()
	require.NoError(t, r.Remove(p))
	require.NoError(t, unix.Mkfifo(r.Path(p), 0o644))
	// The clock of a file system in memory can be too coarse to date the change.
	dir := r.Path(path.Dir(p))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(dir, time.Time{}, info.ModTime().Add(time.Second)))
	reached = make(chan time.Time)
	var w *os.File
	go func() {
		w, _ = os.OpenFile(r.Path(p), os.O_WRONLY, 0) // returns when there is a reader
		close(reached)
	}()
	return reached, func(value string) {
		<-reached
		_, err := io.WriteString(w, value)
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
}
