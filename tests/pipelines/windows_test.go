package pipelines

import (
	"archive/zip"
	"bytes"
	"debug/pe"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files of tasks on Windows differ from those on Linux by what Windows needs, and by
// nothing more: there is not an image, and no GPU to leave out.
func TestTasksOnWindowsAreThoseOnLinux(t *testing.T) {
	paths := files(t, "tasks/windows/*.yml")
	require.Len(t, paths, 5)
	for _, path := range paths {
		var windows, linux task
		read(t, path, &windows)
		read(t, filepath.Join(dir, "tasks", filepath.Base(path)), &linux)
		linux.Platform, linux.ImageResource = "windows", nil
		for _, name := range []string{"AMD_VISIBLE_DEVICES", "JUNIT", "GPU_BASELINE"} { // programs for Linux
			delete(linux.Params, name)
		}
		require.Equal(t, "venv", windows.Params["ROCM_VENV"], path)
		delete(windows.Params, "ROCM_VENV")
		if strings.HasSuffix(path, "wheel.yml") {
			require.Equal(t, "((allowed-dlls))", windows.Params["ALLOWED_DLLS"])
			delete(windows.Params, "ALLOWED_DLLS")
		}
		require.Equal(t, linux, windows, path)
	}
}

// Tasks on Windows run on the workers with Windows, all more on workers with Linux: a get
// and a put need containers.
func TestOnlyTasksRunOnWindows(t *testing.T) {
	on := map[string]int{}
	for _, j := range chainOf(t, "rocm-windows.yml").Jobs {
		for _, d := range j.Plan {
			if strings.Contains(d.File, "/windows/") {
				require.Equal(t, "((windows-tags))", d.Tags, "%s: %s", j.Name, d.Task)
				require.Empty(t, d.Image)
				on[j.Name]++
				continue
			}
			require.NotEqual(t, "((windows-tags))", d.Tags, "%s: %s", j.Name, d.Get+d.Put+d.Task)
		}
	}
	require.Equal(t, map[string]int{"hip-check": 1, "unit": 1, "profile": 1, "wheel": 1, "gpu-verify": 1}, on)
}

// What is released with Windows has passed the GPU of Windows and the same commit on Linux.
func TestWindowsChainEndsWithLinux(t *testing.T) {
	passed := map[string][]string{}
	for _, j := range chainOf(t, "rocm-windows.yml").Jobs {
		for _, d := range j.Plan {
			if d.Trigger || d.Get == "wheels" {
				passed[j.Name] = append(passed[j.Name], d.Passed...)
			}
		}
	}
	require.Equal(t, map[string][]string{"hip-check": nil, "unit": {"hip-check"}, "profile": {"unit"}, "wheel": {"profile"},
		"gpu-verify": {"wheel"}, "linux": {"wheel"}, "release": {"wheel", "gpu-verify", "linux"}}, passed)
}

// peFile is a DLL for amd64 with one section, which has the import directory and the one of
// delayed imports.
func peFile(needs, delayed []string) []byte {
	const sectionAt, address = 0x200, 0x1000
	var section bytes.Buffer
	names, at := map[string]uint32{}, uint32(20*(len(needs)+1)+32*(len(delayed)+1))
	for _, name := range slices.Concat(needs, delayed) {
		names[name] = address + at
		at += uint32(len(name)) + 1
	}
	put := func(v ...uint32) { binary.Write(&section, binary.LittleEndian, v) }
	for _, name := range needs {
		put(0, 0, 0, names[name], 1)
	}
	put(0, 0, 0, 0, 0)
	for _, name := range delayed {
		put(1, names[name], 0, 0, 0, 0, 0, 0)
	}
	put(0, 0, 0, 0, 0, 0, 0, 0)
	for _, name := range slices.Concat(needs, delayed) {
		section.WriteString(name + "\x00")
	}
	var out bytes.Buffer
	dos := make([]byte, 0x40)
	copy(dos, "MZ")
	binary.LittleEndian.PutUint32(dos[0x3C:], 0x40)
	out.Write(dos)
	out.WriteString("PE\x00\x00")
	optional := pe.OptionalHeader64{Magic: 0x20B, ImageBase: 0x180000000, NumberOfRvaAndSizes: 16}
	optional.DataDirectory[1] = pe.DataDirectory{VirtualAddress: address, Size: uint32(20 * (len(needs) + 1))}
	optional.DataDirectory[13] = pe.DataDirectory{VirtualAddress: address + uint32(20*(len(needs)+1)), Size: 32}
	binary.Write(&out, binary.LittleEndian, pe.FileHeader{Machine: pe.IMAGE_FILE_MACHINE_AMD64, NumberOfSections: 1,
		SizeOfOptionalHeader: uint16(binary.Size(optional)), Characteristics: 0x2022})
	binary.Write(&out, binary.LittleEndian, optional)
	binary.Write(&out, binary.LittleEndian, pe.SectionHeader32{Name: [8]uint8{'.', 'r'}, VirtualSize: uint32(section.Len()),
		VirtualAddress: address, SizeOfRawData: uint32(section.Len()), PointerToRawData: sectionAt})
	out.Write(make([]byte, sectionAt-out.Len()))
	out.Write(section.Bytes())
	return out.Bytes()
}

// importsOf runs the parser of the tasks on files: the DLLs of each, or "error: ...".
func importsOf(t *testing.T, paths ...string) []string {
	t.Helper()
	program := `
import sys
import pe_imports
for path in sys.stdin.read().split("\n"):
    with open(path, "rb") as f:
        data = f.read()
    try:
        print(" ".join(pe_imports.imports(data)))
    except ValueError as e:
        print("error:", e)
`
	c := exec.Command(needPython(t, ""), "-c", program)
	scripts, err := filepath.Abs(filepath.Join(dir, "tasks/rocm"))
	require.NoError(t, err)
	c.Env = append(os.Environ(), "PYTHONPATH="+scripts, "PYTHONDONTWRITEBYTECODE=1")
	c.Stdin = strings.NewReader(strings.Join(paths, "\n"))
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	require.Len(t, lines, len(paths))
	return lines
}

func TestImportsOfPEFilesAreRead(t *testing.T) {
	made := filepath.Join(t.TempDir(), "x.pyd")
	require.NoError(t, os.WriteFile(made, peFile([]string{"amdhip64_7.dll", "KERNEL32.dll"}, []string{"hipblaslt.dll"}), 0o644))
	require.Equal(t, []string{"amdhip64_7.dll KERNEL32.dll hipblaslt.dll"}, importsOf(t, made))

	// Go's own linker and reader.
	program := filepath.Join(t.TempDir(), "p.exe")
	source := filepath.Join(t.TempDir(), "p.go")
	require.NoError(t, os.WriteFile(source, []byte("package main\n\nfunc main() { println(1) }\n"), 0o644))
	c := exec.Command("go", "build", "-o", program, source)
	c.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, []string{"kernel32.dll"}, importsOf(t, program))
}

// Real DLLs, if Wine is installed: Go's reader finds no DLL that the parser does not find.
func TestImportsOfWinesDLLsAreRead(t *testing.T) {
	paths, err := filepath.Glob("/usr/lib/x86_64-linux-gnu/wine/x86_64-windows/*.dll")
	require.NoError(t, err)
	if len(paths) == 0 {
		t.Skip("needs wine64: sudo apt-get install -y wine64")
	}
	for i, line := range importsOf(t, paths...) {
		f, err := pe.Open(paths[i])
		require.NoError(t, err)
		symbols, err := f.ImportedSymbols()
		f.Close()
		require.NoError(t, err, paths[i])
		for _, s := range symbols {
			_, dll, _ := strings.Cut(s, ":")
			require.Contains(t, strings.Fields(line), dll, paths[i])
		}
	}
}

// A file from outside that is cut, changed or no PE file is an error of one line.
func TestDamagedPEFilesAreErrors(t *testing.T) {
	dir, whole := t.TempDir(), peFile([]string{"amdhip64_7.dll", "KERNEL32.dll"}, []string{"hipblaslt.dll"})
	random := rand.New(rand.NewPCG(1, 2))
	paths := make([]string, 600)
	for i := range paths {
		data := slices.Clone(whole)
		if i%3 == 0 {
			data = data[:random.IntN(len(data))]
		}
		for range random.IntN(4) {
			if len(data) > 0 {
				data[random.IntN(len(data))] = byte(random.Uint32())
			}
		}
		paths[i] = filepath.Join(dir, fmt.Sprint(i))
		require.NoError(t, os.WriteFile(paths[i], data, 0o644))
	}
	failed := 0
	for _, line := range importsOf(t, paths...) { // an exception of another kind ends the program
		if strings.HasPrefix(line, "error: ") {
			failed++
		}
	}
	require.Greater(t, failed, 150)
}

// wheelWith writes a wheel with one extension to path.
func wheelWith(t *testing.T, path string, extension []byte) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	z := zip.NewWriter(f)
	w, err := z.Create("project/_C.pyd")
	require.NoError(t, err)
	_, err = w.Write(extension)
	require.NoError(t, err)
	_, err = z.Create("project-1.2.3.dist-info/RECORD")
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
}

func TestWheelWithACutDLLFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "project-1.2.3-cp312-cp312-win_amd64.whl")
	wheelWith(t, path, peFile([]string{"KERNEL32.dll"}, nil)[:0x50])
	out, err := rocmScripts(t, "import sys, windows_wheel; windows_wheel.check(sys.argv[1], [])", path)
	require.Error(t, err)
	require.Contains(t, out, "ValueError: cannot read the imports of project/_C.pyd: it ends before byte ")
}

// The environment of a task on Windows: Python in a new folder, which has what the machine has.
func TestTaskHasItsOwnPythonWithROCMVENV(t *testing.T) {
	s := newStep(t)
	s.checkout(t, "source")
	s.vars["unit-command"] = `python -c "import sys; print('in', sys.prefix)"; python -m pip --version >/dev/null`
	s.env = []string{"ROCM_VENV=venv"}
	if exec.Command(s.vars["python"], "-c", "import ensurepip").Run() != nil {
		t.Skip("needs python3-venv: sudo apt-get install -y python3-venv")
	}
	require.Contains(t, s.passes(t, "unit"), "in "+s.path("venv")+"\n")
}

// rocmScripts runs a Python program that imports the scripts of tasks.
func rocmScripts(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	c := exec.Command(needPython(t, ""), append([]string{"-c", program}, args...)...)
	scripts, err := filepath.Abs(filepath.Join(dir, "tasks/rocm"))
	require.NoError(t, err)
	c.Env = append(os.Environ(), "PYTHONPATH="+scripts, "PYTHONDONTWRITEBYTECODE=1")
	out, err := c.CombinedOutput()
	return string(out), err
}

// cmd goes on after a line that fails, so each line is a command. cmd reads the quotes of the
// line itself, so Windows must get the line as it is, between one pair of quotes.
func TestCommandsOfWindowsAreLines(t *testing.T) {
	out, err := rocmScripts(t, `import subprocess
import rocm_project
for command in rocm_project.commands('a\n\n  python "%ROCM_MEASURE%" @x.txt  \n', windows=True):
    # subprocess gives CreateProcess a string unchanged, and a list through list2cmdline.
    print(command if isinstance(command, str) else subprocess.list2cmdline(command))
print(rocm_project.commands("a\n b", windows=False))
print(rocm_project.commands(" ", windows=True), rocm_project.commands(" ", windows=False))`)
	require.NoError(t, err, out)
	require.Equal(t, `cmd.exe /d /s /c "a"
cmd.exe /d /s /c "python "%ROCM_MEASURE%" @x.txt"
[['sh', '-ec', 'a\n b']]
[] []
`, out)
}

// A wheel that gets DLLs stays small, and has equal bytes after each build.
func TestBundledWheelIsCompressedWithEqualBytes(t *testing.T) {
	folder := t.TempDir()
	dlls := filepath.Join(folder, "dlls")
	require.NoError(t, os.Mkdir(dlls, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dlls, "hip.dll"), append(peFile(nil, nil), make([]byte, 1<<20)...), 0o644))
	var built [][]byte
	for range 2 {
		path := filepath.Join(folder, "project-1.2.3-cp312-cp312-win_amd64.whl")
		wheelWith(t, path, peFile([]string{"hip.dll"}, nil))
		out, err := rocmScripts(t, "import sys, windows_wheel; windows_wheel.bundle(sys.argv[1], [], [sys.argv[2]])", path, dlls)
		require.NoError(t, err, out)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		built = append(built, data)
	}
	require.Equal(t, built[0], built[1])
	require.Less(t, len(built[0]), 100_000)
}

// A DLL may be in each folder that the variables of Windows name. The message for a missing
// DLL names these variables.
func TestDLLsAreSearchedInTheFoldersOfVariables(t *testing.T) {
	out, err := rocmScripts(t, `import os
os.environ.update(ROCM_EXTRA_BIN_DIRS="/a:/b", ROCM_EXTRA_LIB_DIRS="/c", ROCM_PATH="/rocm")
import build_wheel
print(build_wheel.dll_folders())`)
	require.NoError(t, err, out)
	require.Equal(t, "['/c', '/a', '/b', '/rocm/bin']\n", out, "in the order of PATH")

	path := filepath.Join(t.TempDir(), "project-1.2.3-cp312-cp312-win_amd64.whl")
	wheelWith(t, path, peFile([]string{"hip.dll"}, nil))
	out, err = rocmScripts(t, "import sys, windows_wheel; windows_wheel.check(sys.argv[1], [])", path)
	require.Error(t, err)
	require.Contains(t, out, "project/_C.pyd needs hip.dll, which is not in the wheel")
	require.Contains(t, out, "add its folder to windows-extra-bin-dirs")
}
