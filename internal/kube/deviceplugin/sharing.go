package deviceplugin

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// MaxReplicas bounds --replicas. Each replica has a file, which is read each second.
const MaxReplicas = 100

// replicaMark separates the GPU from the number in the name of a replica.
const replicaMark = "::"

// sharedSuffix ends the names of resources with shared GPUs. A pod that requests amd.com/gpu
// never gets a shared one.
const sharedSuffix = ".shared"

// ids returns the names under which the kubelet gets the device.
func (d device) ids() []string {
	if d.replicas == 0 {
		return []string{d.id()}
	}
	ids := make([]string, d.replicas)
	for i := range ids {
		ids[i] = d.id() + replicaMark + strconv.Itoa(i)
	}
	return ids
}

// isReplica reports whether a name of the kubelet is a replica's.
func isReplica(id string) bool { return strings.Contains(id, replicaMark) }

// gpuOf returns the index of the GPU with this name or replica, and -1 if it is missing.
func (m machine) gpuOf(id string) int {
	name, number, replica := strings.Cut(id, replicaMark)
	if n, err := strconv.Atoi(number); replica && (err != nil || n < 0 || strconv.Itoa(n) != number) {
		return -1
	}
	return slices.IndexFunc(m.devices, func(d device) bool { return d.id() == name })
}

// share marks the GPUs that the options share, and reads who has replicas. It does not offer a
// GPU that pods have in the other way, by options of before.
func (m *machine) share(o options) (unknown, err error) {
	if o.replicas > 1 {
		var shared []int
		shared, unknown = m.chosen(o.shared)
		for _, i := range shared {
			m.devices[i].replicas = o.replicas
		}
	}
	if !m.leased() {
		return unknown, nil
	}
	for i, s := range m.states {
		shared := m.devices[i].replicas > 0
		if s.Held && s.Kind == lease.Pod && shared != (s.Container == lease.SharingPods) {
			m.devices[i].holder = s.Holder()
		}
	}
	return unknown, m.readReplicas()
}

// chosen returns the GPUs that --shared-gpus names, and which of its entries name none.
func (m machine) chosen(shared string) (indexes []int, unknown error) {
	for entry := range strings.SplitSeq(shared, ",") {
		chosen, problems := gpu.Select(m.all, entry)
		for _, problem := range problems {
			_, why, _ := strings.Cut(problem, ": ")
			unknown = errors.Join(unknown, fmt.Errorf("cannot share a GPU of --shared-gpus: %s", why))
		}
		for _, g := range chosen {
			if i := m.gpuOf(g.Address()); i >= 0 {
				indexes = append(indexes, i)
			}
		}
	}
	return indexes, unknown
}

// readReplicas adds the leases of replicas: of those that are offered, and of those with a
// file, which pods may have from before a change of the options.
func (m *machine) readReplicas() error {
	m.replicas = m.leases
	m.replicas.Dir, m.replicas.GPUs = m.leases.Dir+"-shared", nil
	m.replicas.Label = func(i int) string { return m.devices[m.gpuOf(m.replicas.GPUs[i])].label() }
	for _, d := range m.devices {
		if d.replicas > 0 {
			m.addReplicas(d.ids())
		}
	}
	files, err := os.ReadDir(m.replicas.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot read which pods share GPUs: %w", err)
	}
	for _, f := range files {
		m.addReplicas([]string{f.Name()})
	}
	return nil
}

// addReplicas adds the leases of replicas that are new among these names.
func (m *machine) addReplicas(ids []string) {
	for _, id := range ids {
		if isReplica(id) && m.gpuOf(id) >= 0 && !slices.Contains(m.replicas.GPUs, id) {
			m.replicas.GPUs = append(m.replicas.GPUs, id)
		}
	}
}

// names returns the names of all leases: the GPUs, and then the replicas.
func (m machine) names() []string { return slices.Concat(m.leases.GPUs, m.replicas.GPUs) }

// owners returns the index of the GPU of each lease.
func (m machine) owners() (of []int) {
	for _, name := range m.names() {
		of = append(of, m.gpuOf(name))
	}
	return of
}

// readAll returns the state of each lease, in the order of names.
func (m machine) readAll() ([]lease.State, error) {
	gpus, _, err := m.leases.Read()
	if err != nil {
		return nil, err
	}
	replicas, _, err := m.replicas.Read()
	return append(gpus, replicas...), err
}

// byLease splits indexes of names into those of GPUs and of replicas.
func (m machine) byLease(indexes []int) (gpus, replicas []int) {
	for _, i := range indexes {
		if i < len(m.devices) {
			gpus = append(gpus, i)
		} else {
			replicas = append(replicas, i-len(m.devices))
		}
	}
	return gpus, replicas
}

// holdFor leases these of the names to a pod. A GPU is leased to all pods that share it.
func (m machine) holdFor(pod string, indexes []int, excluded map[int]string) error {
	gpus, replicas := m.byLease(indexes)
	if pod != lease.SharingPods {
		if err := m.leases.HoldForPod(pod, gpus, excluded); err != nil {
			return err
		}
		gpus = nil
	}
	for _, r := range replicas {
		gpus = append(gpus, m.gpuOf(m.replicas.GPUs[r]))
	}
	for _, i := range gpus {
		if err := m.leases.HoldForPod(lease.SharingPods, []int{i}, excluded); err != nil {
			return err
		}
	}
	refused := map[int]string{}
	for r, name := range m.replicas.GPUs {
		if why, is := excluded[m.gpuOf(name)]; is {
			refused[r] = why
		}
	}
	return m.replicas.HoldForPod(pod, replicas, refused)
}

// checkUse refuses a GPU that pods have in the other way: one alone, or several as a shared
// one.
func (m machine) checkUse(ids []string, states []lease.State) error {
	for _, id := range ids {
		i := m.gpuOf(id)
		if s := states[i]; s.Held && s.Kind == lease.Pod && isReplica(id) != (s.Container == lease.SharingPods) {
			return fmt.Errorf("cannot give %s to a pod as %s: held by %s", m.devices[i].label(), id, s.Holder())
		}
	}
	return nil
}

// checkDistinct refuses replicas of the same GPU in one container.
func (m machine) checkDistinct(found []int) error {
	for n, i := range found {
		if slices.Contains(found[:n], i) {
			return fmt.Errorf("cannot give %s twice to one container: its replicas are the same GPU; request "+
				"fewer, at most as many as the node shares GPUs", m.devices[i].label())
		}
	}
	return nil
}

// preferReplicas chooses among free replicas: each of another GPU, those with the fewest
// pods first.
func (m machine) preferReplicas(c *v1beta1.ContainerPreferredAllocationRequest) ([]string, error) {
	must, err := m.find(c.MustIncludeDeviceIDs)
	if err != nil {
		return nil, err
	}
	if err := m.checkDistinct(must); err != nil {
		return nil, err
	}
	free := make([][]string, len(m.devices))
	for _, id := range c.AvailableDeviceIDs {
		if i := m.gpuOf(id); i >= 0 && !slices.Contains(must, i) {
			free[i] = append(free[i], id)
		}
	}
	free = slices.DeleteFunc(free, func(ids []string) bool { return len(ids) == 0 })
	slices.SortStableFunc(free, func(a, b []string) int { return len(b) - len(a) })
	n := int(c.AllocationSize) - len(must)
	if n < 0 || n > len(free) {
		return nil, fmt.Errorf("cannot choose %d shared GPUs for one container: %d have a free replica",
			c.AllocationSize, len(must)+len(free))
	}
	chosen := slices.Clone(c.MustIncludeDeviceIDs)
	for _, ids := range free[:n] {
		chosen = append(chosen, slices.MinFunc(ids, func(a, b string) int {
			return cmp.Or(len(a)-len(b), strings.Compare(a, b)) // by number
		}))
	}
	return chosen, nil
}
