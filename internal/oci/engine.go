package oci

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/cmdline"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/visible"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

const (
	// concourseName is the wrapper's name in the PATH of Concourse's containerd, which has
	// it first. Other engines, such as Docker and Podman, use its full path.
	concourseName = "runc"
	// concourseNamespace is Concourse's namespace of containerd (Concourse,
	// worker/workercmd/containerd.go). The shim's --root ends with it.
	concourseNamespace = "concourse"
)

// calledByConcourse reports whether this program was called by the name that Concourse's
// containerd uses. Facts that a container can choose, such as its mounts, do not decide
// this.
func calledByConcourse(args []string) bool {
	return len(args) == 0 || filepath.Base(args[0]) == concourseName
}

// ofConcourse reports whether containerd makes the call for Concourse. Docker has a
// separate namespace, even if it uses the worker's containerd behind the usual socket and
// so has this program as its default runc.
func ofConcourse(c *cmdline.Call) bool { return filepath.Base(c.Root) == concourseNamespace }

// cdiAnnotation begins the CDI annotations of a container (kubelet, CRI; CDI's
// pkg/cdi/annotations.go).
const cdiAnnotation = "cdi.k8s.io/"

// keepGroups is the annotation that makes crun keep the groups of the container's user.
// Podman sets it for --group-add keep-groups (crun(1)).
const keepGroups = "run.oci.keep_original_groups"

// engineConfig returns the settings for an engine other than Concourse's that uses this
// program without a config file: all GPUs of the CDI spec, for containers that request
// them.
func (w *wrapper) engineConfig() (*settings, error) {
	s := &settings{Config: Config{Containers: Requested, Specs: []string{wellknown.AMDSpec},
		GPUs:    []GPU{{Name: cdispec.All, CDI: wellknown.AMDKind + "=" + cdispec.All}},
		Visible: []string{wellknown.AMDVisible}}}
	if dir := getenv(w.env, "XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && w.rootless() {
		s.State = filepath.Join(dir, "runc-amd-wrapper")
	}
	s.setDefaults()
	var err error
	s.Runtime, err = w.findRuntime()
	return s, err
}

// runtimes lists where distributions install the real runtime.
var runtimes = []string{"/usr/bin/runc", "/usr/sbin/runc", "/usr/local/sbin/runc", "/usr/local/bin/runc",
	"/usr/bin/crun", "/usr/local/bin/crun"}

// Runtimes returns the paths of findRuntime, in the order for root.
func Runtimes() []string { return slices.Clone(runtimes) }

// findRuntime looks for the real runtime. Without root it looks for crun first, because
// only crun can keep the groups that open a node.
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
	return "", fmt.Errorf("cannot find the real runc: none of %s is there; install runc or crun, or name one by "+
		"%s", strings.Join(runtimes, ", "), EnvRuntime)
}

// missingConfig reports whether err is a missing config file that engineConfig replaces. It
// then marks the call as one of another engine.
func (w *wrapper) missingConfig(err error) bool {
	none := w.foreign && w.config == DefaultConfig && errors.Is(err, unix.ENOENT)
	w.engine = w.engine || none
	return none
}

// rootless reports whether an engine without root called: as another user, or in a user
// namespace with that user as its root.
func (m *machine) rootless() bool {
	if !m.engine || m.euid != 0 {
		return m.engine
	}
	text, err := m.uidMap()
	return err == nil && strings.Join(strings.Fields(string(text)), " ") != "0 0 4294967295"
}

// staleSpecRemedy returns who writes a stale CDI spec again, for a refusal.
func (m *machine) staleSpecRemedy() string {
	if m.engine {
		return "the command cdi generate writes the spec again"
	}
	return "the unit writes the spec again at its next hook"
}

// missingSpecRemedy returns who writes a missing CDI spec, for a refusal.
func (m *machine) missingSpecRemedy() string {
	if m.engine {
		return "the command cdi generate writes it"
	}
	return "the unit's status has the cause"
}

// engineFacts holds facts that only containers of other engines have.
type engineFacts struct {
	uid        uint64
	keepGroups bool
	requested  []string // CDI names in annotations
}

func (f *facts) readEngine(root, process rawjson.Value) error {
	user, err := process.Member("user", rawjson.Object)
	if err != nil {
		return err
	}
	if f.uid, err = user.NumberOf("uid", 1<<32-1); err != nil {
		return err
	}
	annotations, err := root.Member("annotations", rawjson.Object)
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

// requestsGPUs reports whether a container gets GPUs: a task, or a container of another
// engine that requests them. A CDI request overrides the image's variable.
func (f *facts) requestsGPUs(s *settings, foreign bool) bool {
	switch {
	case s.Containers == All, f.task:
		return true
	case s.Containers != Requested || !foreign:
		return false
	}
	var names []string
	for _, name := range f.requested {
		for _, g := range s.GPUs {
			kind, _, _ := strings.Cut(g.CDI, "=")
			if strings.HasPrefix(strings.TrimSpace(name), kind+"=") {
				names = append(names, strings.TrimSpace(name))
				break
			}
		}
	}
	if len(names) > 0 && len(s.Visible) > 0 {
		f.env = append(f.env, s.Visible[0]+"="+strings.Join(names, ","))
	}
	return visible.RequestsGPUs(s.Visible, f.env)
}

// refuseUnserved refuses a container of another engine that requests GPUs if the config
// gives them only to Concourse's tasks. Otherwise it would run without a GPU and without a
// reason.
func (w *wrapper) refuseUnserved(s *settings, f facts) error {
	if !w.foreign || s.Containers != Tasks || !visible.RequestsGPUs(s.Visible, f.env) {
		return nil
	}
	return fmt.Errorf("cannot give the container a GPU: %s gives them only to Concourse's tasks", w.config)
}

// engineDevices returns the leased GPUs, as indexes in s.GPUs, with nodes that
// another engine has put into a container. Docker and Podman do so for --device, which may
// name a CDI device, and for --privileged. Concourse never does.
func (w *wrapper) engineDevices(s *settings, root rawjson.Value) (gpus []int, err error) {
	if s.Leases == nil || !w.foreign {
		return nil, nil
	}
	fail := func(err error) ([]int, error) { return nil, fmt.Errorf("cannot decode %s: %w", configName, err) }
	linux, err := root.Member("linux", rawjson.Object)
	if err != nil {
		return fail(err)
	}
	devices, err := linux.Member("devices", rawjson.Array)
	if err != nil {
		return fail(err)
	}
	for d := range devices.Elements() {
		kind, err := d.StringOf("type")
		if err != nil {
			return fail(err)
		}
		major, err := d.NumberOf("major", 1<<32-1)
		if err != nil {
			return fail(err)
		}
		minor, err := d.NumberOf("minor", 1<<32-1)
		if err != nil {
			return fail(err)
		}
		if kind != "c" && kind != "u" { // config-linux.md: both are character devices
			continue
		}
		at := slices.IndexFunc(s.GPUs,
			func(g GPU) bool { return w.hasNode(g, unix.Mkdev(uint32(major), uint32(minor))) })
		if at >= 0 && !slices.Contains(gpus, at) {
			gpus = append(gpus, at)
		}
	}
	return gpus, nil
}

// hasNode reports whether a device is a node of a GPU, under any name.
func (w *wrapper) hasNode(g GPU, dev uint64) bool {
	return slices.ContainsFunc(g.Nodes, func(path string) bool {
		var st unix.Stat_t
		return w.lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == dev
	})
}

// leaseEngineDevices leases exactly the GPUs that the engine has put into the container,
// whatever its environment requests, and adds nothing to it. GPUs that the container's pod
// holds are its own already.
func (w *wrapper) leaseEngineDevices(s *settings, c *cmdline.Call, doc *rawjson.Doc, gpus []int) (h heldLease,
	err error) {
	if gpus, err = w.withoutPodGPUs(s, doc.Root(), gpus); err != nil || len(gpus) == 0 {
		return heldLease{}, err
	}
	leases := w.leases(s, s.GPUNames())
	leases.Label = func(gpu int) string { return s.GPUs[gpu].Name + " (" + s.GPUs[gpu].Nodes[0] + ")" }
	got, err := w.leaseWithRetry(s, func() (got []int, err error) {
		want := w.readAdmission(s)
		want.Of, want.Count = gpus, len(gpus)
		var caller lease.Call
		const ownProcess = true
		if h, caller, err = w.newCaller(doc, c, ownProcess); err != nil {
			return nil, err
		}
		return leases.Try(caller, want)
	})
	if err != nil {
		return heldLease{}, fmt.Errorf("cannot leave the container the GPUs that its engine has put into it "+
			"(--device, --privileged): %w", err)
	}
	h.setGPUs(s, got)
	return h, nil
}

// podNames lists the annotations with which containerd and CRI-O name the owner of a
// container: the pod's namespace, the pod and the container (containerd,
// internal/cri/annotations; kubelet, kuberuntime/labels.go).
var podNames = [][3]string{
	{"io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri.sandbox-name", "io.kubernetes.cri.container-name"},
	{"io.kubernetes.pod.namespace", "io.kubernetes.pod.name", "io.kubernetes.container.name"},
}

// withoutPodGPUs leaves out the GPUs that the container's own pod, a pod that is still to
// come, or pods or claims that share them hold.
func (w *wrapper) withoutPodGPUs(s *settings, root rawjson.Value, gpus []int) (others []int, err error) {
	annotations, err := root.Member("annotations", rawjson.Object)
	if err != nil {
		return nil, fmt.Errorf("cannot decode %s: %w", configName, err)
	}
	var owners []string
	for _, names := range podNames {
		var parts [len(names)]string
		for i, name := range names {
			if parts[i], err = annotations.StringOf(name); err != nil {
				return nil, fmt.Errorf("cannot decode %s: %w", configName, err)
			}
		}
		if parts[1] != "" {
			owners = append(owners, strings.Join(parts[:], "/"), lease.StartingPod, lease.SharingPods, lease.SharingClaims)
		}
	}
	if len(owners) == 0 {
		return gpus, nil
	}
	states, _, err := w.leases(s, s.GPUNames()).Read()
	if err != nil {
		return nil, err
	}
	for _, g := range gpus {
		s := states[g]
		own := (s.Kind == lease.Pod || s.Kind == lease.Claimed) && slices.Contains(owners, s.Container)
		if claim, is := s.Claim(); is {
			// It names no pod, as several may share it. All are in its namespace, and a kubelet
			// gives a container only GPUs of its own claims.
			own = slices.ContainsFunc(owners, func(pod string) bool { return strings.HasPrefix(pod, claim.Namespace+"/") })
		}
		if !s.Held || !own {
			others = append(others, g)
		}
	}
	return others, nil
}
