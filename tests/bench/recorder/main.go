// Command recorder measures the cost of the recorder of tasks: the share of a processor for
// 16 tasks and 8 GPUs, and the bytes of a record for an hour. The machine is of files, and
// an hour of looks runs as fast as it can. Files of /proc and sysfs may cost more to read.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/recorder"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
)

const (
	tasks, gpus = 16, 8
	lasts       = time.Hour
)

func main() {
	dir, err := os.MkdirTemp("", "recorder-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = measure(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// put writes a file below the root.
func put(root, name, text string) {
	p := filepath.Join(root, name)
	if os.WriteFile(p, []byte(text), 0o644) != nil {
		_ = os.MkdirAll(filepath.Dir(p), 0o755)
		_ = os.WriteFile(p, []byte(text), 0o644)
	}
}

func measure(dir string) error {
	put(dir, "proc/sys/kernel/random/boot_id", "b\n")
	put(dir, "proc/uptime", "5.00 1.00\n")
	put(dir, "proc/stat", "cpu  1 0 0 1 0 0 0 0\ncpu0 1 0 0 1\n")
	put(dir, "proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n")
	for i := range gpus {
		addGPU(dir, i)
	}
	for i := range tasks {
		addTask(dir, i)
	}
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	r, err := recorder.New(recorder.Options{Root: host.Root(dir), Worker: none.URL, Volumes: "/", Report: "/run/report.json", Usage: usageFile,
		Limits: taskrecord.Limits{Bytes: 1 << 30, Age: lasts * 24, FailedAge: lasts * 24}, Now: func() time.Time { return now }})
	if err != nil {
		return err
	}
	used := time.Duration(0)
	for range int(lasts / time.Second) {
		now = now.Add(time.Second)
		change(dir, int(now.Unix()))
		if err := scan(dir, now); err != nil {
			return err
		}
		before := cpu()
		if err := r.Look(context.Background()); err != nil {
			return err
		}
		used += cpu() - before
	}
	if err := r.Close(); err != nil {
		return err
	}
	files, err := taskrecord.Store{Dir: filepath.Join(dir, taskrecord.DefaultDir)}.List()
	if err != nil || len(files) != tasks {
		return fmt.Errorf("%d records: %w", len(files), err)
	}
	bytes, read := int64(0), 0
	for _, f := range files {
		bytes += f.Size
		record, err := f.Read()
		if err != nil {
			return err
		}
		for _, samples := range record.GPUs {
			read += len(samples)
		}
	}
	if want := gpus * int(lasts/time.Second); read < want*9/10 {
		return fmt.Errorf("%d readings of GPUs, want %d", read, want)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"tasks": tasks, "gpus": gpus, "core_percent": used.Seconds() / lasts.Seconds() * 100,
		"mib_per_task_hour": float64(bytes) / tasks / (1 << 20)})
}

func cpu() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func address(i int) string { return fmt.Sprintf("0000:%02x:00.0", 3+i) }

func addGPU(dir string, i int) {
	dev := "sys/devices/pci0000:00/" + address(i)
	for name, text := range map[string]string{"uevent": "DRIVER=amdgpu\nPCI_ID=1002:74A1\nPCI_SLOT_NAME=" + address(i) + "\n",
		"vendor": "0x1002\n", "device": "0x74a1\n", "revision": "0x00\n", "class": "0x120000\n", "mem_info_vram_total": "206141652992\n",
		"mem_info_vram_used": "1048576\n", "gpu_busy_percent": "90\n", "power/runtime_status": "active\n",
		"hwmon/hwmon0/name": "amdgpu\n", "hwmon/hwmon0/temp2_label": "junction\n", "hwmon/hwmon0/temp2_input": "60000\n",
		"hwmon/hwmon0/temp2_crit": "100000\n", "hwmon/hwmon0/power1_average": "300000000\n",
		"ras/umc_err_count": "ue: 0\nce: 0\n", fmt.Sprintf("drm/renderD%d/dev", 128+i): fmt.Sprintf("226:%d\n", 128+i)} {
		put(dir, dev+"/"+name, text)
	}
	for at, to := range map[string]string{"sys/bus/pci/devices/" + address(i): "../../../devices/pci0000:00/" + address(i),
		dev + "/driver": "../../../bus/pci/drivers/amdgpu", dev + fmt.Sprintf("/drm/renderD%d/device", 128+i): "../../../" + address(i),
		fmt.Sprintf("sys/class/drm/renderD%d", 128+i): fmt.Sprintf("../../devices/pci0000:00/%s/drm/renderD%d", address(i), 128+i)} {
		_ = os.MkdirAll(filepath.Dir(filepath.Join(dir, at)), 0o755)
		_ = os.Symlink(to, filepath.Join(dir, at))
	}
	_ = os.MkdirAll(filepath.Join(dir, "sys/bus/pci/drivers/amdgpu"), 0o755)
	put(dir, fmt.Sprintf("dev/dri/renderD%d", 128+i), fmt.Sprintf("226:%d 0660 0 44\n", 128+i))
}

func handle(i int) string { return fmt.Sprintf("0badcafe-0000-4000-8000-%012d", i) }

func addTask(dir string, i int) {
	pid := 1000 + 10*i
	for _, p := range []int{pid, pid + 1} {
		put(dir, fmt.Sprintf("proc/%d/stat", p), fmt.Sprintf("%d (x) S 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 500 1 1\n", p))
	}
	put(dir, fmt.Sprintf("proc/%d/cgroup", pid), "0::/garden/"+handle(i)+"\n")
	mounts := "37 35 0:31 /x /tmp/build/1c633350 rw - ext4 x rw\n"
	if i < gpus {
		mounts += fmt.Sprintf("38 35 0:5 /x /dev/dri/renderD%d rw - devtmpfs x rw\n", 128+i)
	}
	put(dir, fmt.Sprintf("proc/%d/mountinfo", pid), mounts)
	put(dir, recorder.DefaultBundles+"/"+handle(i)+"/init.pid", fmt.Sprint(pid))
	put(dir, recorder.DefaultBundles+"/"+handle(i)+"/task.pid", fmt.Sprint(pid+1))
}

// change writes new values: of GPUs each second, others every 5 s.
func change(dir string, second int) {
	for i := range gpus {
		dev := "sys/devices/pci0000:00/" + address(i)
		put(dir, dev+"/hwmon/hwmon0/power1_average", fmt.Sprintf("%d000000\n", 200+rand.Intn(300)))
		put(dir, dev+"/hwmon/hwmon0/temp2_input", fmt.Sprintf("%d000\n", 60+rand.Intn(30)))
		put(dir, dev+"/gpu_busy_percent", fmt.Sprintf("%d\n", rand.Intn(101)))
		put(dir, dev+"/mem_info_vram_used", fmt.Sprintf("%d\n", rand.Int63n(200<<30)))
	}
	if second%5 != 0 {
		return
	}
	total := second * 1000
	for i := range tasks {
		n := total + rand.Intn(100_000)
		cg := "sys/fs/cgroup/garden/" + handle(i)
		for name, text := range map[string]string{"cgroup.procs": fmt.Sprintf("%d\n", 1001+10*i), "memory.max": "max\n",
			"cpu.stat": fmt.Sprintf("usage_usec %d\nnr_periods 0\nnr_throttled 0\n", n), "memory.current": fmt.Sprintf("%d\n", n*100),
			"cpu.pressure": fmt.Sprintf("some total=%d\nfull total=%d\n", n, n/2), "io.pressure": fmt.Sprintf("some total=%d\nfull total=%d\n", n, n/2),
			"memory.pressure": "some total=0\nfull total=0\n", "memory.stat": "inactive_file 0\npgmajfault 0\n",
			"memory.events": "oom 0\noom_kill 0\n", "io.stat": fmt.Sprintf("8:0 rbytes=%d wbytes=%d\n", n, n)} {
			put(dir, cg+"/"+name, text)
		}
		net := fmt.Sprintf("proc/%d/net/", 1000+10*i)
		put(dir, net+"dev", fmt.Sprintf("  eth0: %d 0 0 0 0 0 0 0 %d 0 0 0 0 0 0 0\n", n, n/3))
		put(dir, net+"snmp", fmt.Sprintf("Tcp: CurrEstab OutSegs RetransSegs\nTcp: 2 %d 0\n", n/1000))
	}
}

// usageFile has the scan of the users of the GPUs, which another process makes each 15 s.
const usageFile = "/run/usage.json"

// scan writes the users of all GPUs: each task, and as many containers as a scan shows.
func scan(dir string, now time.Time) error {
	if now.Unix()%15 != 0 {
		return nil
	}
	r := usage.Result{At: now}
	for i := range gpus {
		u := usage.Used{Slot: gpu.Slot{PCI: address(i)}}
		for n := range usage.DefaultContainers {
			u.Rows = append(u.Rows, usage.Row{Container: handle(n), Processes: 1, Open: 60,
				Memory: []usage.Amount{{Name: "vram", Value: 1 << 30}, {Name: "gtt", Value: 1 << 20}},
				Busy:   []usage.Amount{{Name: "gfx", Value: rand.Float64()}, {Name: "compute", Value: rand.Float64()}}})
		}
		r.Devices = append(r.Devices, u)
	}
	return usage.File(usageFile).Write(host.Root(dir), r)
}
