package monitor

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/gpu/amd/amdgpu"
)

// kernelLog is what the kernel's log told of GPUs, by PCI address.
type kernelLog struct {
	mu   sync.Mutex
	last map[string]amdgpu.Seen
}

// Texts of amdgpu about a hang (amdgpu_job.c, amdgpu_device.c).
var hangTexts = [...]string{" timeout, signaled seq=", "GPU reset begin!", "GPU reset(", "GPU Recovery Failed", "GPU reset end with ret ="}

// of is the zero value where it never told of the GPU.
func (k *kernelLog) of(pci string) amdgpu.Seen {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last[pci]
}

// record takes one record of /dev/kmsg.
func (k *kernelLog) record(text string, now time.Time) {
	note := func(s *amdgpu.Seen) { s.Logged = now }
	pci, ok := hungDevice(text)
	if !ok {
		var number int
		if pci, number, ok = xidOf(text); !ok || xids[number] == nil {
			return
		}
		note = func(s *amdgpu.Seen) { xids[number](s, now) }
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil {
		k.last = map[string]amdgpu.Seen{}
	}
	if s, known := k.last[pci]; known || len(k.last) < 1024 {
		note(&s)
		k.last[pci] = s
	}
}

// hungDevice finds the GPU in "4,812,93847562,-;amdgpu 0000:03:00.0: amdgpu:
// ring gfx_0.0.0 timeout, signaled seq=17" (Documentation/ABI/testing/dev-kmsg).
// A record by a process has another prefix and speaks for nobody's GPU.
func hungDevice(record string) (pci string, ok bool) {
	prefix, text, found := strings.Cut(record, ";")
	text, _, _ = strings.Cut(text, "\n")
	rest, driver := strings.CutPrefix(text, "amdgpu ")
	pci, _, named := strings.Cut(rest, ": ")
	if !found || !driver || !named || !isPCI(pci) || !fromKernelItself(prefix) {
		return "", false
	}
	for _, t := range hangTexts {
		if strings.Contains(rest, t) {
			return pci, true
		}
	}
	return "", false
}

// fromKernelItself: the facility above the three bits of the level is 0.
func fromKernelItself(prefix string) bool {
	first, _, _ := strings.Cut(prefix, ",")
	return len(first) == 1 && first[0] >= '0' && first[0] <= '7'
}

// isPCI knows addresses such as 0000:03:00.0.
func isPCI(s string) bool {
	domain, rest, ok1 := strings.Cut(s, ":")
	bus, slot, ok2 := strings.Cut(rest, ":")
	return ok1 && ok2 && len(domain) >= 4 && len(domain) <= 8 && len(bus) == 2 && len(slot) == 4 && slot[2] == '.' &&
		strings.Trim(domain+bus+slot, "0123456789abcdef.") == ""
}

// follow reads new records until the context is done. A machine that does not
// let this process read its log, as most containers, has one signal less.
func (k *kernelLog) follow(ctx context.Context, root host.Root, now func() time.Time) {
	f, err := os.OpenFile(root.Path("/dev/kmsg"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { f.Close() })
	defer stop()
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		f.Close()
		return
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		f.Close()
		return
	}
	record := make([]byte, 8<<10) // more than one record can be (CONSOLE_EXT_LOG_MAX)
	for {
		n, err := f.Read(record)
		switch {
		case errors.Is(err, syscall.EPIPE): // records were lost: the next is there
		case err != nil:
			f.Close()
			return
		default:
			k.record(string(record[:n]), now())
		}
	}
}
