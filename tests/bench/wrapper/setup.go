package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// parallel is how many creates run at a time in the variants that have many.
const parallel = 8

// bench is a directory with the programs, bundles, and a config for each
// number of GPUs.
type bench struct {
	dir                   string // programs, configuration
	fast                  string // bundles and state, if there is a tmpfs, as /run is
	runtimeKind, nodeKind string
	spec                  []byte // config.json as Concourse makes it
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) bundle(i int) string { return filepath.Join(b.fast, "bundle"+strconv.Itoa(i)) }

func setUp(dir, fast string) (*bench, error) {
	b := &bench{dir: dir, fast: fast, runtimeKind: "busybox true", nodeKind: "0660"}
	for name, pkg := range map[string]string{
		wrapper: "src/runc-amd-wrapper", "floor": "tests/bench/wrapper/floor", "noop": "tests/bench/wrapper/noop",
	} {
		c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", b.path("built"), "github.com/fourdollars/concourse-ci-machine/"+pkg)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
		}
		if err := b.install(name, b.path("built")); err != nil {
			return nil, err
		}
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		b.runtimeKind, busybox = "a Go program that does nothing", b.path("noop")
	}
	if err := os.Symlink(busybox, b.path("true")); err != nil {
		return nil, err
	}
	for i := range parallel {
		if err := os.Mkdir(b.bundle(i), 0o755); err != nil {
			return nil, err
		}
	}
	if b.spec, err = json.MarshalIndent(taskSpec(usualEnv), "", " "); err != nil {
		return nil, err
	}
	for _, name := range []string{"models", "data sets", "cache_rw", "out_writable"} {
		if err := os.MkdirAll(b.path("srv/"+name), 0o755); err != nil {
			return nil, err
		}
	}
	if err := b.makeNodes(); err != nil {
		return nil, err
	}
	for _, gpus := range []int{2, 8} {
		if err := b.configure(gpus); err != nil {
			return nil, err
		}
	}
	return b, b.mark()
}

// install copies a program, all of them in the same way: one that the linker has
// written lies in the page cache in other pieces, and starts 0.15 ms slower.
func (b *bench) install(name, program string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	return os.WriteFile(b.path(name), data, 0o755)
}

// makeNodes makes stand-ins for kfd and 8 GPUs if it can; no one opens them.
func (b *bench) makeNodes() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(b.dir, &fs); err != nil {
		return err
	}
	if os.Geteuid() != 0 || fs.Flags&unix.ST_NODEV != 0 {
		b.nodeKind = "/dev/null, 0666"
		return nil
	}
	for i := range 17 {
		if err := unix.Mknod(b.path("node"+strconv.Itoa(i)), unix.S_IFCHR|0o660, int(unix.Mkdev(226, uint32(i+1)))); err != nil {
			return err
		}
	}
	return nil
}

// node is described with all that internal/gpu/cdi writes.
func (b *bench) node(path string, i int) map[string]any {
	n := map[string]any{"path": b.path("node" + strconv.Itoa(i)), "type": "c", "major": 226, "minor": i + 1,
		"fileMode": 438, "permissions": "rw"}
	if b.nodeKind != "0660" {
		n["path"], n["hostPath"], n["major"], n["minor"] = path, "/dev/null", 1, 3
	}
	return n
}

func (b *bench) configure(gpus int) error {
	edits := func(nodes ...map[string]any) map[string]any { return map[string]any{"deviceNodes": nodes} }
	var all []map[string]any
	for g := range gpus {
		all = append(all, b.node(fmt.Sprintf("/dev/dri/card%d", g), 1+2*g), b.node(fmt.Sprintf("/dev/dri/renderD%d", 128+g), 2+2*g))
	}
	devices := []any{map[string]any{"name": "all", "containerEdits": edits(all...)}}
	var given []oci.GPU
	for g := range gpus {
		id := fmt.Sprintf("GPU-%016x", g+1)
		given = append(given, oci.GPU{Name: fmt.Sprintf("0000:%02x:00.0", 3+g), CDI: "amd.com/gpu=" + id,
			Nodes: []string{all[2*g+1]["path"].(string), all[2*g]["path"].(string)}})
		for _, name := range []string{strconv.Itoa(g), id, given[g].Name} {
			devices = append(devices, map[string]any{"name": name, "containerEdits": edits(all[2*g : 2*g+2]...)})
		}
	}
	spec := b.path(fmt.Sprintf("amd%d.json", gpus))
	if err := writeJSON(spec, map[string]any{
		"cdiVersion": "0.5.0", "kind": "amd.com/gpu", "containerEdits": edits(b.node("/dev/kfd", 0)), "devices": devices,
	}); err != nil {
		return err
	}
	config := oci.Config{
		Runtime: b.path("true"), Specs: []string{spec}, GPUs: given,
		State: filepath.Join(b.fast, "state"), Nodes: b.path("nodes"), Visible: []string{"AMD_VISIBLE_DEVICES"},
		Env:     map[string]string{"HSA_OVERRIDE_GFX_VERSION": "11.0.0", "HIP_ARCHES": "gfx1100"},
		Folders: &oci.Folders{Root: b.path("srv")},
		// As on a unit without a quarantined GPU: there is no such file.
		Quarantine: filepath.Join(b.fast, "admission.json"),
	}
	if err := writeJSON(b.path(fmt.Sprintf("wrapper%d.json", gpus)), config); err != nil {
		return err
	}
	for _, kind := range []string{"leased", "busy"} {
		config.Leases = &oci.Leases{Dir: filepath.Join(b.fast, kind+strconv.Itoa(gpus)), Links: links(gpus)}
		if err := writeJSON(b.path(fmt.Sprintf("wrapper%d-%s.json", gpus, kind)), config); err != nil {
			return err
		}
	}
	return b.hold(config)
}

// hold leases all GPUs but one to containers with a runc that is this program, which lives
// as long as it measures.
func (b *bench) hold(config oci.Config) error {
	l := lease.Leases{Dir: config.Leases.Dir, GPUs: config.GPUNames(), Links: config.Leases.Links, Euid: uint32(os.Geteuid())}
	if err := os.WriteFile(b.path("held.pid"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	for i := range len(l.GPUs) - 1 {
		name := "held" + strconv.Itoa(i)
		call := lease.Call{Container: name, Bundle: b.bundle(0), PidFile: b.path("held.pid"), Cgroup: name, PID: os.Getpid()}
		if _, err := l.Take(call, lease.Want{Count: 1}); err != nil {
			return err
		}
	}
	return nil
}

// links joins all GPUs by XGMI, as on a node with eight.
func links(gpus int) (rows [][]int) {
	for i := range gpus {
		row := make([]int, gpus)
		for j := range gpus {
			if i != j {
				row[j] = lease.LinkXGMI
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// mark makes the container "marked" one whose exec calls are changed, and more
// of its kind, as on a busy worker.
func (b *bench) mark() error {
	if err := os.Mkdir(filepath.Join(b.fast, "state"), 0o700); err != nil {
		return err
	}
	names := []string{"marked"}
	for i := range 20 {
		names = append(names, "other"+strconv.Itoa(i))
	}
	for _, name := range names {
		if err := writeJSON(filepath.Join(b.fast, "state", name), map[string]any{"bundle": b.bundle(0), "groups": []int{992},
			"defaults": []string{"HIP_ARCHES=gfx1100", "HSA_OVERRIDE_GFX_VERSION=11.0.0"}}); err != nil {
			return err
		}
	}
	return writeJSON(b.path("process"), taskSpec(usualEnv)["process"])
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v) // as the charm writes it
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
