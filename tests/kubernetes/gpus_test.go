//go:build kubernetes

package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"concourse-ci-machine/internal/host/hosttest"
	"concourse-ci-machine/tests/suite"
)

// gpus is how many sysfs tells of: those of the fixture host mi210x4, renderD128 to 131.
const gpus = 4

func render(gpu int) string { return fmt.Sprintf("/dev/dri/renderD%d", 128+gpu) }

// fakeGPUs lays the fixture host over /sys, with the numbers of the stand-ins, and has
// the kernel's list of drivers name kfd's.
func fakeGPUs() error {
	numbers, err := suite.Minors()
	if err != nil {
		return err
	}
	sys := filepath.Join(dir, "sys")
	if err := os.CopyFS(sys, os.DirFS(filepath.Join(hosttest.HostsDir(), "mi210x4/sys"))); err != nil {
		return err
	}
	for i := range gpus {
		minor := numbers[render(i)]
		for _, name := range []string{fmt.Sprintf("card%d", 1+i), filepath.Base(render(i))} {
			if err := os.WriteFile(filepath.Join(sys, "class/drm", name, "dev"), fmt.Appendf(nil, "10:%d\n", minor), 0o644); err != nil {
				return err
			}
		}
		if err := suite.Node(fmt.Sprintf("/dev/dri/card%d", 1+i), 0o660, 10, minor); err != nil {
			return err
		}
	}
	if err := renumber(filepath.Join(sys, "class/kfd/kfd/topology/nodes"), numbers); err != nil {
		return err
	}
	for _, name := range []string{"class", "bus", "module", "devices"} {
		at := filepath.Join("/sys", name)
		if err := syscall.Mount("overlay", at, "overlay", 0, "lowerdir="+filepath.Join(sys, name)+":"+at); err != nil {
			return fmt.Errorf("cannot lay GPUs over %s: %w", at, err)
		}
	}
	drivers, err := os.ReadFile("/proc/devices")
	if err != nil {
		return err
	}
	own := filepath.Join(dir, "devices")
	if err := os.WriteFile(own, []byte(strings.Replace(string(drivers), "Character devices:\n", "Character devices:\n 10 kfd\n", 1)), 0o644); err != nil {
		return err
	}
	return syscall.Mount(own, "/proc/devices", "", syscall.MS_BIND, "")
}

var renderMinor = regexp.MustCompile(`drm_render_minor (1\d\d)\n`)

// renumber has KFD, which knows GPUs by their render nodes' numbers, tell the stand-ins'.
func renumber(nodes string, numbers map[string]int) error {
	files, err := filepath.Glob(nodes + "/*/properties")
	for _, file := range files {
		data, failed := os.ReadFile(file)
		if failed != nil {
			return failed
		}
		data = renderMinor.ReplaceAllFunc(data, func(line []byte) []byte {
			number := renderMinor.FindSubmatch(line)[1]
			return []byte("drm_render_minor " + strconv.Itoa(numbers["/dev/dri/renderD"+string(number)]) + "\n")
		})
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return err
}
