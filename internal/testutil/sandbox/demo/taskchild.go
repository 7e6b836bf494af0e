package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// runTaskChild plays the scene's machine: a mount namespace with a separate /dev, so that
// the real /dev is not touched.
func runTaskChild(stdout, stderr io.Writer) int {
	c := child{root: host.Root(os.Getenv("TASK_ROOT")), dir: os.Getenv("TASK_DIR"), out: stdout}
	if err := c.run(); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

type child struct {
	root host.Root
	dir  string
	out  io.Writer
}

const (
	taskID  = "demo-task"
	taskUID = 1000
)

func (c *child) run() error {
	if err := c.ownDev(); err != nil {
		return fmt.Errorf("cannot make a /dev: %w", err)
	}
	bundle := filepath.Join(c.dir, "bundle")
	if err := c.bundle(bundle); err != nil {
		return fmt.Errorf("cannot make a bundle: %w", err)
	}
	config, err := c.wrapperConfig()
	if err != nil {
		return err
	}
	defer c.runc(bundle, config, "delete", "--force", taskID)
	if err := c.runc(bundle, config, "create", "--bundle", bundle, "--pid-file", filepath.Join(c.dir, "pid"),
		taskID); err != nil {
		return err
	}
	if err := c.runc(bundle, config, "start", taskID); err != nil {
		return err
	}
	for _, uid := range []int{0, taskUID} {
		process := filepath.Join(c.dir, "process.json")
		if err := writeJSON(process, taskProcess(uid, "/task", "/dev/kfd", "/dev/dri/renderD128")); err != nil {
			return err
		}
		if err := c.runc(bundle, config, "exec", "--process", process, taskID); err != nil {
			return err
		}
	}
	for _, path := range []string{"/dev/kfd", "/dev/dri/renderD128"} {
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "host node %s is still %s\n", path, st.Mode().Perm())
	}
	return nil
}

// wrapperConfig returns the charm's configuration, with the paths in the throwaway root and
// this machine's runc.
func (c *child) wrapperConfig() (string, error) {
	data, err := c.root.ReadFile(oci.DefaultConfig)
	if err != nil {
		return "", err
	}
	var config oci.Config
	if err := json.Unmarshal(data, &config); err != nil {
		return "", err
	}
	if config.Runtime, err = exec.LookPath("runc"); err != nil {
		return "", err
	}
	for i, s := range config.Specs {
		config.Specs[i] = c.root.Path(s)
	}
	config.State = filepath.Join(c.dir, "state")
	path := filepath.Join(c.dir, "wrapper.json")
	return path, writeJSON(path, config)
}

func (c *child) runc(bundle, config string, args ...string) error {
	cmd := exec.Command(c.root.Path("/opt/concourse-ci-machine/runtime/runc"),
		append([]string{"--root", filepath.Join(c.dir, "runc", "concourse"), "--log",
			filepath.Join(bundle, "log.json"), "--log-format", "json"}, args...)...)
	cmd.Env = append(os.Environ(), oci.EnvConfig+"="+config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = bundle, c.out, c.out
	if err := cmd.Run(); err != nil {
		log, _ := os.ReadFile(filepath.Join(bundle, "log.json"))
		return fmt.Errorf("cannot run runc %v: %w: %s", args, err, log)
	}
	return nil
}

// ownDev gives this mount namespace a /dev with the stand-in nodes.
func (c *child) ownDev() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	dev := filepath.Join(c.dir, "dev")
	if err := os.MkdirAll(dev, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	nodes := map[string]string{"null": "1:3", "zero": "1:5", "full": "1:7", "random": "1:8", "urandom": "1:9",
		"tty": "5:0"}
	for name, number := range nodes {
		if err := node(filepath.Join(dev, name), number, 0o666, 0); err != nil {
			return err
		}
	}
	for _, d := range []string{"pts", "shm", "mqueue", "dri"} {
		if err := os.Mkdir(filepath.Join(dev, d), 0o755); err != nil {
			return err
		}
	}
	// The unit may be there, by TMPDIR.
	if err := unix.Mount("/dev/shm", filepath.Join(dev, "shm"), "", unix.MS_BIND, ""); err != nil && err != unix.ENOENT {
		return err
	}
	if err := unix.Mount("devpts", filepath.Join(dev, "pts"), "devpts", 0, "newinstance,ptmxmode=0666"); err != nil {
		return err
	}
	if err := os.Symlink("pts/ptmx", filepath.Join(dev, "ptmx")); err != nil {
		return err
	}
	for name, env := range map[string]string{"kfd": "TASK_KFD", "dri/renderD128": "TASK_RENDER"} {
		if err := node(filepath.Join(dev, name), os.Getenv(env), 0o660, 44); err != nil {
			return err
		}
	}
	return unix.Mount(dev, "/dev", "", unix.MS_MOVE, "")
}

func node(path, number string, mode uint32, gid int) error {
	major, minor, err := host.ParseNumber(number)
	if err != nil {
		return err
	}
	if err := unix.Mknod(path, unix.S_IFCHR|mode, int(unix.Mkdev(major, minor))); err != nil {
		return err
	}
	if err := os.Chmod(path, os.FileMode(mode)); err != nil {
		return err
	}
	return os.Chown(path, 0, gid)
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// bundle creates a container as Concourse does for an unprivileged task: init waits, and
// the task starts with exec.
func (c *child) bundle(dir string) error {
	rootfs := filepath.Join(dir, "rootfs")
	for _, d := range []string{"proc", "dev", "sys", "tmp/build/0badcafe"} {
		if err := os.MkdirAll(filepath.Join(rootfs, d), 0o755); err != nil {
			return err
		}
	}
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	for _, name := range []string{"task", "init"} {
		if err := os.WriteFile(filepath.Join(rootfs, name), exe, 0o755); err != nil {
			return err
		}
	}
	volume := filepath.Join(c.dir, "volume")
	if err := os.MkdirAll(volume, 0o755); err != nil {
		return err
	}
	for _, p := range []string{c.dir, dir} {
		if err := os.Chmod(p, 0o755); err != nil {
			return err
		}
	}
	const root = 4294967294 // Concourse maps a container's root to this id
	for _, p := range []string{rootfs, volume} {
		if err := syscall.Chown(p, root, root); err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(dir, "config.json"), taskConfig(volume))
}

// taskProcess returns a process of the task's container.
func taskProcess(uid int, args ...string) map[string]any {
	caps := []string{}
	if uid == 0 {
		caps = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_SETGID", "CAP_SETUID", "CAP_KILL"}
	}
	return map[string]any{
		"user": map[string]any{"uid": uid, "gid": uid}, "cwd": "/", "env": []string{"PATH=/"}, "args": args,
		"capabilities": map[string]any{"bounding": caps, "effective": caps, "permitted": caps},
	}
}

// taskConfig has the properties of a task's container in Concourse: the mount below
// /tmp/build, the user namespace with its mapping, and one device rule.
func taskConfig(volume string) map[string]any {
	type object = map[string]any
	mount := func(destination, kind, source string, options ...string) object {
		return object{"destination": destination, "type": kind, "source": source, "options": options}
	}
	namespaces := []object{}
	for _, n := range []string{"pid", "ipc", "uts", "mount", "network", "user"} {
		namespaces = append(namespaces, object{"type": n})
	}
	ids := []object{
		{"containerID": 0, "hostID": 4294967294, "size": 1},
		{"containerID": 1, "hostID": 1, "size": 4294967293},
	}
	return object{
		"ociVersion": "1.0.2", "hostname": "task", "root": object{"path": "rootfs"},
		"process": taskProcess(0, "/init"),
		"mounts": []object{
			mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
			mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
			mount("/tmp/build/0badcafe", "bind", volume, "bind", "rw"),
		},
		"linux": object{
			"namespaces": namespaces, "uidMappings": ids, "gidMappings": ids, "cgroupsPath": "/" + taskID,
			"resources": object{"devices": []object{
				{"allow": false, "access": "rwm"},
				{"allow": true, "type": "c", "major": 10, "minor": 229, "access": "rwm"},
			}},
		},
	}
}
