package oci

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/oci/cmdline"
	"concourse-ci-machine/internal/pool/lease"
)

// putByEngine are the leased GPUs, by their places in s.Leases.GPUs, whose nodes another
// engine has put into a container itself: Docker and Podman for --device, which may be of
// CDI, and for --privileged. Concourse never does.
func (w *wrapper) putByEngine(s *settings, root rawjson.Value) (gpus []int, err error) {
	if s.Leases == nil || !w.foreign {
		return nil, nil
	}
	fail := func(err error) ([]int, error) { return nil, fmt.Errorf("cannot decode %s: %w", configName, err) }
	linux, err := root.Of("linux", rawjson.Object)
	if err != nil {
		return fail(err)
	}
	devices, err := linux.Of("devices", rawjson.Array)
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
		at := slices.IndexFunc(s.Leases.GPUs, func(g LeasedGPU) bool { return w.hasNode(g, unix.Mkdev(uint32(major), uint32(minor))) })
		if at >= 0 && !slices.Contains(gpus, at) {
			gpus = append(gpus, at)
		}
	}
	return gpus, nil
}

// hasNode tells whether a device is one of a GPU's, by whatever name a container has it.
func (w *wrapper) hasNode(g LeasedGPU, dev uint64) bool {
	return slices.ContainsFunc(g.Nodes, func(path string) bool {
		var st unix.Stat_t
		return w.lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == dev
	})
}

// leasePut leases exactly the GPUs that the engine has put into the container, whatever
// its environment says, and adds nothing to it. Those that a pod keeps are its containers'
// already.
func (w *wrapper) leasePut(s *settings, c *cmdline.Call, doc *rawjson.Doc, gpus []int) (h held, err error) {
	names := s.LeaseNames()
	if gpus, err = w.lessOfPod(s, doc.Root(), gpus); err != nil || len(gpus) == 0 {
		return held{}, err
	}
	got, err := w.take(s, func() (got []int, err error) {
		file := w.readWithheld(s)
		want := lease.Want{Of: gpus, Count: len(gpus), Unready: unready(file.Memory, names)}
		for _, out := range s.withheld(file) {
			for _, g := range gpus {
				if slices.ContainsFunc(out.Nodes, func(n string) bool { return slices.Contains(s.Leases.GPUs[g].Nodes, n) }) {
					want.Withheld = append(want.Withheld, lease.Withheld{GPU: g, Why: out.Why})
				}
			}
		}
		var caller lease.Call
		if h, caller, err = w.caller(doc, c, true); err != nil {
			return nil, err
		}
		leases := w.leases(s, names)
		leases.Label = func(gpu int) string { return names[gpu] + " (" + s.Leases.GPUs[gpu].Nodes[0] + ")" }
		return leases.Try(caller, want)
	})
	if err != nil {
		return held{}, fmt.Errorf("cannot leave the container the GPUs that its engine has put into it (--device, --privileged): %w", err)
	}
	for _, g := range got {
		h.gpus = append(h.gpus, names[g])
	}
	return h, nil
}

// podNames are the annotations by which containerd and CRI-O tell whose a container is:
// the pod's namespace and name, and the container's (containerd, internal/cri/annotations;
// kubelet, kuberuntime/labels.go).
var podNames = [][3]string{
	{"io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri.sandbox-name", "io.kubernetes.cri.container-name"},
	{"io.kubernetes.pod.namespace", "io.kubernetes.pod.name", "io.kubernetes.container.name"},
}

// lessOfPod leaves out the GPUs that the container's own pod keeps, or one that is to come.
func (w *wrapper) lessOfPod(s *settings, root rawjson.Value, gpus []int) (others []int, err error) {
	annotations, err := root.Of("annotations", rawjson.Object)
	if err != nil {
		return nil, fmt.Errorf("cannot decode %s: %w", configName, err)
	}
	var whose []string
	for _, names := range podNames {
		var parts [len(names)]string
		for i, name := range names {
			if parts[i], err = annotations.StringOf(name); err != nil {
				return nil, fmt.Errorf("cannot decode %s: %w", configName, err)
			}
		}
		if parts[1] != "" {
			whose = append(whose, strings.Join(parts[:], "/"), lease.PodToCome)
		}
	}
	if len(whose) == 0 {
		return gpus, nil
	}
	states, _, err := w.leases(s, s.LeaseNames()).Read()
	if err != nil {
		return nil, err
	}
	for _, g := range gpus {
		if s := states[g]; !s.Held || s.Kind != lease.Pod || !slices.Contains(whose, s.Container) {
			others = append(others, g)
		}
	}
	return others, nil
}
