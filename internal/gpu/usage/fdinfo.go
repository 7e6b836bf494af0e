package usage

import (
	"slices"
	"strconv"
	"strings"
)

// The kinds of memory; kindKFD is KFD's own count.
const (
	kindVRAM = iota
	kindGTT
	kindCPU
	kindKFD
	numKinds
)

var kinds = [numKinds]string{"vram", "gtt", "cpu", "kfd"}

const (
	maxInfo    = 8 << 10 // bytes read of a fdinfo; amdgpu's has about 1000
	maxEngines = 16      // per client; amdgpu has 7
	maxName    = 32
	maxBytes   = 1 << 50 // more than any machine has; larger numbers are invalid
)

// info holds the values of a DRM file's fdinfo.
type info struct {
	driver  string
	pci     string
	client  uint64
	known   bool // there is a client id
	pasid   uint64
	memory  [numKinds]int64 // bytes; -1 is unknown
	engines []engine
}

// engine holds the busy time of one engine for one client.
type engine struct {
	name string
	ns   uint64
}

// parseInfo reads the keys of Documentation/gpu/drm-usage-stats.rst, and amdgpu's own pasid
// (amdgpu_fdinfo.c). It skips unknown lines. drm-resident-* has precedence over its older
// name drm-memory-*.
func parseInfo(text string) info {
	in := info{memory: [numKinds]int64{-1, -1, -1, -1}}
	resident := [numKinds]bool{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		if !ok || !strings.HasSuffix(line, "\n") { // the last line may be incomplete
			continue
		}
		value = strings.TrimSpace(value)
		switch key {
		case "drm-driver":
			in.driver = value
		case "drm-pdev":
			in.pci = value
		case "drm-client-id":
			in.client, in.known = parseID(value, 64)
		case "pasid":
			in.pasid, _ = parseID(value, 32)
		default:
			if name, ok := strings.CutPrefix(key, "drm-engine-"); ok {
				in.addEngine(name, value)
			} else if name, ok := strings.CutPrefix(key, "drm-resident-"); ok {
				in.addResident(name, value, &resident)
			} else if name, ok := strings.CutPrefix(key, "drm-memory-"); ok {
				in.addMemory(name, value, &resident)
			}
		}
	}
	return in
}

// parseID returns 0 unless the text is a number of at most that many bits.
func parseID(text string, bits int) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		return 0, false
	}
	return n, true
}

// addResident reads drm-resident-*.
func (in *info) addResident(name, value string, resident *[numKinds]bool) {
	if k, n, ok := parseMemory(name, value); ok {
		in.memory[k], resident[k] = n, true
	}
}

// addMemory reads drm-memory-*, unless addResident had the value.
func (in *info) addMemory(name, value string, resident *[numKinds]bool) {
	if k, n, ok := parseMemory(name, value); ok && !resident[k] {
		in.memory[k] = n
	}
}

func parseMemory(name, value string) (kind int, n int64, ok bool) {
	if kind = slices.Index(kinds[:kindKFD], name); kind < 0 {
		return 0, 0, false
	}
	n, ok = parseSize(value)
	return kind, n, ok
}

// addEngine reads "1234 ns". The capacity of an engine has a similar key but no unit.
func (in *info) addEngine(name, value string) {
	number, ok := strings.CutSuffix(value, " ns")
	n, err := strconv.ParseUint(number, 10, 63)
	if !ok || err != nil || !plain(name) || len(in.engines) == maxEngines {
		return
	}
	for _, e := range in.engines {
		if e.name == name {
			return
		}
	}
	in.engines = append(in.engines, engine{name, n})
}

// plain reports whether name is valid as a label.
func plain(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

// parseSize reads a number with a unit of KiB, MiB or none.
func parseSize(value string) (int64, bool) {
	number, unit, _ := strings.Cut(value, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	factor := map[string]int64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[strings.TrimSpace(unit)]
	if err != nil || factor == 0 || n < 0 || n > maxBytes/factor {
		return 0, false
	}
	return n * factor, true
}
