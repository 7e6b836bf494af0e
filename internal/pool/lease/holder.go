package lease

import (
	"cmp"
	"strings"
)

// What State.Engine is.
const (
	docker     = "docker"
	podman     = "podman"
	containerd = "containerd/" // and the namespace
)

// Holder names who holds the GPU, or held it last, for people; "" where nobody is known.
func (s State) Holder() string {
	switch {
	case s.Container == "" || s.Container == PodToCome:
		return s.Container
	case s.Kind == Pod:
		namespace, pod, container := s.Pod()
		return "pod " + namespace + "/" + pod + ", container " + container
	case s.Kind == Container:
		name, _, _ := strings.Cut(cmp.Or(s.Engine, "another engine"), "/")
		return "container " + s.Short() + " of " + name
	}
	if s.TaskEnded {
		return "the ended task of container " + s.Container
	}
	return "the task of container " + s.Container
}

// Look is the command by which people see who that is; "" for none.
func (s State) Look() string {
	switch {
	case s.Kind == Pod && s.Container != PodToCome:
		namespace, pod, _ := s.Pod()
		return "kubectl --namespace " + namespace + " get pod " + pod
	case s.Engine == docker || s.Engine == podman:
		return s.Engine + " ps --filter id=" + s.Short()
	}
	if space, found := strings.CutPrefix(s.Engine, containerd); found {
		return "ctr --namespace " + space + " containers info " + s.Container
	}
	return ""
}

// Pod splits the name of a pod's container; "" where no pod is named.
func (s State) Pod() (namespace, pod, container string) {
	if s.Kind != Pod || s.Container == PodToCome {
		return "", "", ""
	}
	namespace, rest, _ := strings.Cut(s.Container, "/")
	pod, container, _ = strings.Cut(rest, "/")
	return namespace, pod, container
}

// engine tells by a container's bundle whose it is: containerd's shim has its bundles below
// a namespace, which for Docker's is moby, and Podman its own below containers/storage.
func engine(bundle string) string {
	const shim = "/io.containerd.runtime.v2.task/"
	_, below, ofShim := strings.Cut(bundle, shim)
	space, _, _ := strings.Cut(below, "/")
	switch {
	case ofShim && space == "moby":
		return docker
	case ofShim:
		return containerd + space
	case strings.Contains(bundle, "/overlay-containers/"), strings.Contains(bundle, "/vfs-containers/"):
		return podman
	}
	return ""
}

// Short is the name as engines show it: of 64 hexadecimal digits the first twelve.
func (s State) Short() string {
	if id := s.Container; len(id) == 64 && strings.Trim(id, "0123456789abcdef") == "" {
		return id[:12]
	}
	return s.Container
}
