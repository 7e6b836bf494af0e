package oci

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/oci/cmdline"
	"concourse-ci-machine/internal/oci/visible"
)

const (
	// concourseName is the wrapper's name for Concourse's containerd, whose PATH has it
	// first. Other engines, such as Docker and Podman, name it by its path.
	concourseName = "runc"
	// concourseNamespace is Concourse's namespace of containerd (Concourse,
	// worker/workercmd/containerd.go). The shim ends --root with it.
	concourseNamespace = "concourse"
)

// calledByConcourse reports whether this program goes by the name that Concourse's
// containerd has for it. What a container can choose, such as its mounts, does not decide.
func calledByConcourse(args []string) bool {
	return len(args) == 0 || filepath.Base(args[0]) == concourseName
}

// ofConcourse reports whether containerd makes the call for Concourse. Docker has a
// namespace of its own, also on a machine whose Docker found the worker's containerd
// behind the usual socket, and with it this program as its default runc.
func ofConcourse(c *cmdline.Call) bool { return filepath.Base(c.Root) == concourseNamespace }

// The CDI annotations of a container (kubelet, CRI; CDI's pkg/cdi/annotations.go).
const cdiAnnotation = "cdi.k8s.io/"

// keepGroups is the annotation by which crun leaves a container its user's groups; podman
// sets it for --group-add keep-groups (crun(1)).
const keepGroups = "run.oci.keep_original_groups"

// engineConfig is what holds where an engine other than Concourse's names this program as
// a runtime and there is no config file: all GPUs of the CDI description, for containers
// that ask for them.
func (w *wrapper) engineConfig() (*settings, error) {
	s := &settings{Config: Config{Containers: Asked, Specs: []string{wellknown.AMDSpec}, Devices: []string{wellknown.AMDKind + "=all"},
		Visible: []string{wellknown.AMDVisible}}}
	if dir := getenv(w.env, "XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && w.rootless() {
		s.State = filepath.Join(dir, "runc-amd-wrapper")
	}
	s.fill()
	var err error
	s.Runtime, err = w.findRuntime()
	return s, err
}

// runtimes are where distributions have them.
var runtimes = []string{"/usr/bin/runc", "/usr/sbin/runc", "/usr/local/sbin/runc", "/usr/local/bin/runc", "/usr/bin/crun", "/usr/local/bin/crun"}

// findRuntime looks for the real runtime; without root for crun first, which alone can
// leave a container the groups that open a node.
func (w *wrapper) findRuntime() (string, error) {
	if w.runtime != "" {
		return w.runtime, nil
	}
	first, second := runtimes[:4], runtimes[4:]
	if w.rootless() {
		first, second = second, first
	}
	for _, list := range [][]string{first, second} {
		for _, path := range list {
			if w.checkRuntime(path) == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("cannot find the real runc: none of %s is there; install runc or crun, or name one by %s", strings.Join(runtimes, ", "), EnvRuntime)
}

// absent tells whether an engine's wrapper goes by engineConfig.
func (w *wrapper) absent(err error) bool {
	none := w.foreign && w.config == DefaultConfig && errors.Is(err, unix.ENOENT)
	w.engine = w.engine || none
	return none
}

// rootless tells whether an engine without root called: as another user, or in a user
// namespace, whose root is that user.
func (m *machine) rootless() bool {
	if !m.engine || m.euid != 0 {
		return m.engine
	}
	text, err := m.uidMap()
	return err == nil && strings.Join(strings.Fields(string(text)), " ") != "0 0 4294967295"
}

// writtenAnew says who mends a stale description, for a refusal.
func (m *machine) writtenAnew() string {
	if m.engine {
		return "dispatch cdi generate writes the spec anew"
	}
	return "the unit writes the spec anew at its next hook"
}

// comesBack says the same of one that is missing.
func (m *machine) comesBack() string {
	if m.engine {
		return "dispatch cdi generate writes it"
	}
	return "the status of the unit (juju status) says how it comes back"
}

// ofEngine are the facts of a container that only other engines have.
type ofEngine struct {
	uid        uint64
	keepGroups bool
	requested  []string // CDI names, by annotations
}

func (f *facts) readEngine(root, process rawjson.Value) error {
	user, err := process.Of("user", rawjson.Object)
	if err != nil {
		return err
	}
	if f.uid, err = user.NumberOf("uid", 1<<32-1); err != nil {
		return err
	}
	annotations, err := root.Of("annotations", rawjson.Object)
	if err != nil {
		return err
	}
	for key, v := range annotations.Members() {
		switch {
		case key == keepGroups:
			f.keepGroups = v.Text() == "1"
		case strings.HasPrefix(key, cdiAnnotation):
			f.requested = append(f.requested, strings.Split(v.Text(), ",")...)
		}
	}
	return nil
}

// asks reports whether a container is to get GPUs. Tasks are, and containers of other
// engines that ask for GPUs. The request wins over an image's variable.
func (f *facts) asks(s *settings, foreign bool) bool {
	switch {
	case s.Containers == All, f.task:
		return true
	case s.Containers != Asked || !foreign:
		return false
	}
	var names []string
	for _, name := range f.requested {
		for _, d := range s.Devices {
			kind, _, _ := strings.Cut(d, "=")
			if strings.HasPrefix(strings.TrimSpace(name), kind+"=") {
				names = append(names, strings.TrimSpace(name))
				break
			}
		}
	}
	if len(names) > 0 && len(s.Visible) > 0 {
		f.env = append(f.env, s.Visible[0]+"="+strings.Join(names, ","))
	}
	return visible.Wants(s.Visible, f.env)
}

// unserved refuses a container of another engine that wants GPUs where the config gives
// them to Concourse's tasks alone: it would run without one and not know why.
func (w *wrapper) unserved(s *settings, f facts) error {
	if !w.foreign || s.Containers != Tasks || !visible.Wants(s.Visible, f.env) {
		return nil
	}
	return fmt.Errorf("cannot give the container a GPU: %s gives them to Concourse's tasks alone", w.config)
}
