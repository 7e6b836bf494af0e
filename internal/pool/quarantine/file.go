package quarantine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"concourse-ci-machine/internal/base/host"
)

const (
	// Dir is the folder of what has to outlive a reboot and everybody may read.
	Dir = "/var/lib/concourse-ci-machine"
	// File is the Record. Everybody may read it: the exporter does, which is not root.
	File = Dir + "/gpu-service.json"
	// WithheldFile is what of it the wrapper reads for each container.
	WithheldFile = Dir + "/gpu-withheld.json"
	// LockFile keeps two apart that change the record. A hook never holds it.
	LockFile = "/run/concourse-charm/gpu-service.lock"
)

// ErrDamaged says that the file is there and holds no record.
var ErrDamaged = errors.New("it is damaged")

// Read reads the record. Where there is none it is empty: all GPUs are in service.
func Read(r host.Root) (rec Record, err error) {
	data, err := r.ReadFile(File)
	if errors.Is(err, fs.ErrNotExist) {
		return rec, nil
	}
	if errors.Is(err, host.ErrNotFile) {
		err = fmt.Errorf("cannot read %s: %w: %w", File, ErrDamaged, err)
	}
	if err != nil {
		return rec, err
	}
	return decode(data)
}

// decode reads what Encode wrote.
func decode(data []byte) (rec Record, err error) {
	if err := json.Unmarshal(data, &rec); err != nil {
		return Record{}, fmt.Errorf("cannot read %s: %w: %w", File, ErrDamaged, err)
	}
	seen := map[string]bool{}
	for _, g := range rec.GPUs {
		if g.Name == "" || seen[g.Name] || g.State != InService && (g.Out == nil || g.By == "") {
			return Record{}, fmt.Errorf("cannot read %s: %w: GPU %q", File, ErrDamaged, g.Name)
		}
		seen[g.Name] = true
	}
	return rec, nil
}

// Write replaces the record in one step.
func Write(r host.Root, rec Record) error {
	data, err := encode(rec)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", File, err)
	}
	return r.WriteFile(File, data, 0o644)
}

func encode(rec Record) ([]byte, error) {
	data, err := json.Marshal(rec)
	return append(data, '\n'), err
}

// Loads tell this boot, and this load of the driver, from all others. The folder of a
// module gets another inode number with each load.
func Loads(r host.Root) (boot, driver string) {
	boot, _ = r.ReadText("/proc/sys/kernel/random/boot_id") // "" is a boot like any other
	if st, err := r.Stat("/sys/module/amdgpu"); err == nil {
		if sys, ok := st.Sys().(*syscall.Stat_t); ok {
			driver = fmt.Sprint(sys.Ino)
		}
	}
	return boot, driver
}
