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

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// gpus is how many sysfs reports: of the fixture host mi210x4, renderD128 to 131.
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
		hive := filepath.Join(sys, "class/drm", filepath.Base(render(i)), "device/xgmi_hive_info")
		if err := os.MkdirAll(hive, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(hive, "xgmi_hive_id"), fmt.Appendf(nil, "%d\n", 7000+i%2), 0o644); err != nil {
			return err
		}
	}
	topology := filepath.Join(sys, "class/kfd/kfd/topology/nodes")
	if err := renumber(topology, numbers); err != nil {
		return err
	}
	if err := link(topology); err != nil {
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

// renumber has KFD, which knows GPUs by their render nodes' numbers, report the stand-ins'.
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

// link has the GPUs 0 and 2, and 1 and 3, which are one hive each, be one hop over XGMI apart,
// and all others two. In
// KFD's topology they are the nodes 2 to 5.
func link(nodes string) error {
	for from := range gpus {
		for to := range gpus {
			if from == to {
				continue
			}
			weight := 30
			if (from+to)%2 == 0 {
				weight = 15
			}
			file := filepath.Join(nodes, strconv.Itoa(2+from), "io_links", strconv.Itoa(to), "properties")
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(file, fmt.Appendf(nil, "type 11\nnode_from %d\nnode_to %d\nweight %d\n", 2+from, 2+to, weight), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
