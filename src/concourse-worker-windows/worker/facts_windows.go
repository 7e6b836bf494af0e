package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// displayClass is the setup class of display adapters.
var displayClass = windows.GUID{Data1: 0x4d36e968, Data2: 0xe325, Data3: 0x11ce,
	Data4: [8]byte{0xbf, 0xc1, 0x08, 0x00, 0x2b, 0xe1, 0x03, 0x18}}

// GPUs implements Machine. SetupAPI lists the adapters that are present, also without a
// driver of AMD.
func (machine) GPUs() (all []GPU, err error) {
	set, err := windows.SetupDiGetClassDevsEx(&displayClass, "", 0, windows.DIGCF_PRESENT, 0, "")
	if err != nil {
		return nil, fmt.Errorf("cannot list the display adapters: %w", err)
	}
	defer set.Close()
	for i := 0; ; i++ {
		device, err := set.EnumDeviceInfo(i)
		if errors.Is(err, windows.ERROR_NO_MORE_ITEMS) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list the display adapters: %w", err)
		}
		ids, _ := set.DeviceRegistryProperty(device, windows.SPDRP_HARDWAREID) // an adapter of software has none
		list, _ := ids.([]string)
		for _, id := range list {
			if number, ok := deviceOf(id); ok {
				all = append(all, describe(set, device, number))
				break
			}
		}
	}
}

// describe reads the name and the driver of an adapter.
func describe(set windows.DevInfo, device *windows.DevInfoData, number uint16) GPU {
	g := GPU{Device: number, Name: "AMD GPU"}
	if name, err := set.DeviceRegistryProperty(device, windows.SPDRP_DEVICEDESC); err == nil {
		g.Name = fmt.Sprint(name)
	}
	h, err := set.OpenDevRegKey(device, windows.DICS_FLAG_GLOBAL, 0, windows.DIREG_DRV, windows.KEY_READ)
	if err != nil {
		return g // no driver
	}
	key := registry.Key(h)
	defer key.Close()
	provider := text(key, "ProviderName")
	if strings.Contains(provider, "Advanced Micro Devices") || strings.HasPrefix(provider, "AMD") {
		g.Driver, g.Release = text(key, "DriverVersion"), text(key, "RadeonSoftwareVersion")
	}
	return g
}

func text(k registry.Key, name string) string {
	s, _, _ := k.GetStringValue(name) // a missing value is ""
	return s
}

// openMachine opens a key of the machine for reading.
func openMachine(path string) (registry.Key, error) {
	return registry.OpenKey(registry.LOCAL_MACHINE, path, registry.READ|registry.WOW64_64KEY)
}

func machineText(path, name string) string {
	k, err := openMachine(path)
	if err != nil {
		return ""
	}
	defer k.Close()
	s := text(k, name)
	if full, err := registry.ExpandString(s); err == nil {
		return full
	}
	return s
}

var kernel32 = windows.NewLazySystemDLL("kernel32.dll")

// Facts implements Machine. A fact that cannot be read stays unknown.
func (m machine) Facts(workDir string) (f Facts) {
	v := windows.RtlGetVersion()
	f.Build = int(v.BuildNumber)
	f.Product = machineText(`SOFTWARE\Microsoft\Windows NT\CurrentVersion`, "ProductName")
	if f.Build >= 22000 { // the registry still names Windows 10
		f.Product = strings.Replace(f.Product, "Windows 10", "Windows 11", 1)
	}
	f.Memory = memory()
	f.Disk = diskOf(workDir)
	if k, err := openMachine(`SYSTEM\CurrentControlSet\Control\FileSystem`); err == nil {
		n, _, _ := k.GetIntegerValue("LongPathsEnabled")
		f.LongPaths = n == 1
		k.Close()
	}
	f.Runtime = runtimeOf()
	f.HIP = hipSDKs()
	f.Tools = map[string]Tool{"Visual Studio Build Tools": buildTools()}
	path := filepath.SplitList(machineText(`SYSTEM\CurrentControlSet\Control\Session Manager\Environment`, "Path"))
	for name, program := range map[string]string{"Python": "python.exe", "Git": "git.exe", "CMake": "cmake.exe",
		"Ninja": "ninja.exe"} {
		f.Tools[name] = m.toolOn(path, program)
	}
	return f
}

func memory() uint64 {
	var s struct {
		length, load                                                uint32
		total, free, page, pageFree, virtual, virtualFree, extended uint64
	}
	s.length = uint32(unsafe.Sizeof(s))
	if r, _, _ := kernel32.NewProc("GlobalMemoryStatusEx").Call(uintptr(unsafe.Pointer(&s))); r == 0 {
		return 0
	}
	return s.total
}

// diskOf describes the disk of a path.
func diskOf(path string) (d Disk) {
	volume := filepath.VolumeName(path)
	root, err := windows.UTF16PtrFromString(volume + `\`)
	if err != nil || windows.GetDiskFreeSpaceEx(root, &d.Free, &d.Total, nil) != nil {
		return d
	}
	device, err := windows.UTF16PtrFromString(`\\.\` + volume)
	if err != nil {
		return d
	}
	h, err := windows.CreateFile(device, 0, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE, nil,
		windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		return d
	}
	defer windows.CloseHandle(h)
	const queryProperty, seekPenalty = 0x2d1400, 7 // IOCTL_STORAGE_QUERY_PROPERTY, StorageDeviceSeekPenaltyProperty
	query := struct {
		id, kind uint32
		more     [4]byte
	}{id: seekPenalty}
	var answer struct {
		version, size uint32
		penalty       bool
	}
	var n uint32
	err = windows.DeviceIoControl(h, queryProperty, (*byte)(unsafe.Pointer(&query)), uint32(unsafe.Sizeof(query)),
		(*byte)(unsafe.Pointer(&answer)), uint32(unsafe.Sizeof(answer)), &n, nil)
	if err == nil && n >= uint32(unsafe.Sizeof(answer)) {
		d.Rotates = &answer.penalty
	}
	return d
}

// runtimeOf returns the HIP runtime of AMD's driver.
func runtimeOf() (t Tool) {
	system, err := windows.GetSystemDirectory()
	if err != nil {
		return t
	}
	found, _ := filepath.Glob(filepath.Join(system, "amdhip64*.dll")) // the pattern is valid
	if len(found) == 0 {
		return t
	}
	slices.Sort(found)
	last := found[len(found)-1]
	return Tool{Path: filepath.Base(last), Version: fileVersion(last)}
}

func fileVersion(path string) string {
	var zero windows.Handle
	size, err := windows.GetFileVersionInfoSize(path, &zero)
	if err != nil || size == 0 {
		return ""
	}
	data := make([]byte, size)
	if windows.GetFileVersionInfo(path, 0, size, unsafe.Pointer(&data[0])) != nil {
		return ""
	}
	var info *windows.VS_FIXEDFILEINFO
	var n uint32
	if windows.VerQueryValue(unsafe.Pointer(&data[0]), `\`, unsafe.Pointer(&info), &n) != nil || info == nil {
		return ""
	}
	high, low := info.FileVersionMS, info.FileVersionLS
	return fmt.Sprintf("%d.%d.%d.%d", high>>16, high&0xffff, low>>16, low&0xffff)
}

// hipSDKs returns the installed HIP SDKs, the newest first.
func hipSDKs() (all []Tool) {
	base := filepath.Join(os.Getenv("ProgramFiles"), "AMD", "ROCm")
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if len(numbers(e.Name())) > 0 {
			all = append(all, Tool{Path: filepath.Join(base, e.Name()), Version: e.Name()})
		}
	}
	slices.SortFunc(all, func(a, b Tool) int { return slices.Compare(numbers(b.Version), numbers(a.Version)) })
	return all
}

// buildTools returns the newest installation of Visual Studio with a C++ compiler.
func buildTools() (newest Tool) {
	pattern := filepath.Join(os.Getenv("ProgramData"), `Microsoft\VisualStudio\Packages\_Instances\*\state.json`)
	files, _ := filepath.Glob(pattern) // the pattern is valid
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		t, err := parseInstance(data)
		if err != nil {
			continue
		}
		compilers, _ := filepath.Glob(filepath.Join(t.Path, `VC\Tools\MSVC\*\bin\Hostx64\x64\cl.exe`))
		if len(compilers) > 0 && (newest.Path == "" || newer(t.Version, newest.Version)) {
			newest = t
		}
	}
	return newest
}

var versionText = regexp.MustCompile(`\d+(\.\d+)+`)

// toolOn finds a program on the machine's path, which the service has, and runs it for its
// version.
func (m machine) toolOn(path []string, program string) Tool {
	for _, dir := range path {
		file := filepath.Join(dir, program)
		if _, err := os.Stat(file); dir == "" || err != nil {
			continue
		}
		out, err := m.Output(Command{Path: file, Args: []string{"--version"}})
		if err != nil {
			continue // such as an alias that opens the store
		}
		return Tool{Path: file, Version: versionText.FindString(out)}
	}
	return Tool{}
}
