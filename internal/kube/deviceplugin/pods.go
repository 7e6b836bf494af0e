package deviceplugin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// use describes GPUs or replicas that a container has.
type use struct {
	container string // "namespace/pod/container"
	ids       []string
}

// listUses returns the containers with GPUs. The request also makes the kubelet forget pods
// that have ended.
func listUses(ctx context.Context, kubelet string) ([]use, error) {
	conn, err := dial(filepath.Join(kubelet, "pod-resources", "kubelet.sock"))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("cannot ask the kubelet which pods have GPUs, so no lease of a pod ends: %w", err)
	}
	return usesIn(r), nil
}

func usesIn(r *podresources.ListPodResourcesResponse) (uses []use) {
	for _, pod := range r.GetPodResources() {
		for _, c := range pod.GetContainers() {
			u := use{container: pod.GetNamespace() + "/" + pod.GetName() + "/" + c.GetName()}
			for _, d := range c.GetDevices() {
				if isOurs(d.GetResourceName()) {
					u.ids = append(u.ids, d.GetDeviceIds()...)
				}
			}
			uses = append(uses, u)
		}
	}
	return uses
}

// podsOf returns the container that has each lease, by the index of its name.
func (m machine) podsOf(uses []use) map[int]string {
	pods := map[int]string{}
	for _, u := range uses {
		for _, i := range m.indexesOf(u.ids) {
			pods[i] = u.container
		}
	}
	return pods
}

// indexesOf returns the indexes of those names that this machine has.
func (m machine) indexesOf(ids []string) (known []int) {
	names := m.names()
	for _, id := range ids {
		if i := slices.Index(names, id); i >= 0 {
			known = append(known, i)
		}
	}
	return known
}

// notesFile is the kubelet's checkpoint of its allocations, which it reads when it
// restarts. The kubelet writes it at each allocation and each list of devices that it gets.
const notesFile = "kubelet_internal_checkpoint"

const maxNotes = 16 << 20 // bytes

// note describes an allocation of one resource to one container.
type note struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	DeviceIDs     map[string][]string // by NUMA node
	AllocResp     []byte              // the plugin's answer
}

// readNotes reads the notes, and returns nil if they are unchanged since before. It does not
// compare the file's time with the clock: the kernel stamps files with its last tick, which
// is up to 10 ms old, and the kubelet writes its notes sooner than that.
func readNotes(dir string, before os.FileInfo) ([]note, error) {
	file := filepath.Join(dir, notesFile)
	st, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case before != nil && os.SameFile(st, before) && st.ModTime().Equal(before.ModTime()):
		return nil, nil
	case st.Size() > maxNotes:
		return nil, fmt.Errorf("cannot read %s: it has more than %d bytes", file, maxNotes)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	notes, err := decodeNotes(data)
	if err != nil {
		return nil, fmt.Errorf("cannot decode %s: %w", file, err)
	}
	return notes, nil
}

// decodeNotes never returns nil without an error.
func decodeNotes(data []byte) ([]note, error) {
	var f struct {
		Data *struct{ PodDeviceEntries []note }
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Data == nil {
		return nil, fmt.Errorf("it has no Data")
	}
	return append([]note{}, f.Data.PodDeviceEntries...), nil
}

// ids returns its devices.
func (n note) ids() (all []string) {
	for _, ids := range n.DeviceIDs {
		all = append(all, ids...)
	}
	return all
}

// paths returns the nodes that the container gets.
func (n note) paths() (paths []string, err error) {
	var r v1beta1.ContainerAllocateResponse
	if err := proto.Unmarshal(n.AllocResp, &r); err != nil {
		return nil, err
	}
	for _, d := range r.Devices {
		paths = append(paths, d.GetHostPath())
	}
	return paths, nil
}
