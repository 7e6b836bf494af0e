// Package driver implements gpu-dra-driver. It offers a machine's AMD GPUs to claims of a
// Kubernetes cluster through Dynamic Resource Allocation, and leases them to the claims that
// pods use. A quarantined GPU has a taint. It changes and opens no GPU. Leases and the cluster
// have the whole state, so the program has no checkpoint.
package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/kube/deviceplugin"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// Name is the driver's name in the cluster. It is the name of AMD's own driver, because it is
// part of each attribute in the expression of a claim.
const Name = "gpu.amd.com"

const (
	// specFile describes the GPUs for container runtimes, as this program last found them.
	specFile = "/var/run/cdi/gpu.amd.com-gpu.json"
	specKind = "gpu.amd.com/gpu"
)

// driver holds the state of the running program.
type driver struct {
	options
	client kubernetes.Interface    // nil before start
	helper *kubeletplugin.Helper   // nil before start
	fail   context.CancelCauseFunc // ends the program
	*deviceplugin.Journal
	now func() time.Time

	mu         sync.Mutex // protects the following, and is locked while leases change
	seen       deviceplugin.Node
	spec       []byte               // of specFile
	untainted  []resourceapi.Device // of read
	read       []gpu.GPU
	readAt     time.Time
	published  []resourceapi.Device // nil before the first time
	publishing bool                 // since an earlier round
	changed    chan struct{}        // closed after a change of seen
	reported   map[evidence]bool    // the Events that the cluster has
	sending    bool                 // Events, since an earlier round
	tried      time.Time            // the last try to write Events
	shared     []int                // the GPUs that several claims may have
	sharers    [][]lease.Claim      // by GPU
}

func newDriver(o options, log io.Writer) *driver {
	return &driver{options: o, Journal: deviceplugin.NewJournal(log, "claims"), now: time.Now,
		changed: make(chan struct{}), reported: map[evidence]bool{}}
}

// turn does one round of work.
func (d *driver) turn(ctx context.Context) {
	d.mu.Lock()
	unseen := d.look()
	d.Report("GPUs", unseen)
	d.Report("leases", d.endPods(ctx))
	d.Report("shares", d.lookAtShares())
	devices := d.devices()
	publish := d.helper != nil && unseen == nil && !reflect.DeepEqual(devices, d.published)
	switch {
	case publish && d.publishing:
		d.Report("slices", errors.New("cannot write the slices of this node: the API server does not list those of "+
			"resource.k8s.io/v1"))
	case publish:
		d.publishing = true
		go d.publish(ctx, devices)
	}
	d.mu.Unlock()
	if d.helper != nil {
		d.reportEvidence(ctx)
	}
}

// publish writes the slices. The first time it waits for the API server, and rounds go on.
func (d *driver) publish(ctx context.Context, devices []resourceapi.Device) {
	err := d.helper.PublishResources(ctx, d.resources(devices))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.publishing = false
	d.Report("slices", err)
	if err == nil {
		d.published = devices
	}
}

// endPods ends the leases of pods that the device plugin gave GPUs before this driver took its
// place. The caller holds mu.
func (d *driver) endPods(ctx context.Context) error {
	ended, err := d.seen.EndedPods(ctx, d.kubelet)
	if err != nil {
		return fmt.Errorf("cannot ask the kubelet which pods have GPUs, so no lease of a pod ends: %w", err)
	}
	if len(ended) == 0 {
		return nil
	}
	if err := d.seen.Leases.ReleasePod(ended); err != nil {
		return err
	}
	return d.look()
}

// look updates the view of the machine and its description for runtimes. After an error the
// previous view stays. The caller holds mu.
func (d *driver) look() error {
	m, err := deviceplugin.LookAtNode(d.root, d.config, d.now, d.seen)
	if err != nil {
		return err
	}
	if err := d.describe(m); err != nil {
		return err
	}
	if !reflect.DeepEqual(m.Devices, d.seen.Devices) {
		close(d.changed)
		d.changed = make(chan struct{})
	}
	d.seen = m
	if d.replicas > 1 {
		d.shared, err = m.Shared(d.sharedGPUs)
		d.Report("shared GPUs", err)
	}
	for i, g := range m.Devices {
		d.LogChange(g.Address(), g.Label(), d.stateOf(i))
	}
	return nil
}

// stateOf returns why claims cannot get a GPU, and "" if they can.
func (d *driver) stateOf(i int) string {
	if holder := d.otherHolder(i); holder != nil {
		return "has a taint: " + holder.Holder() + " has it"
	}
	if why := d.seen.Devices[i].Exclusion; why != "" {
		return "has a taint: it " + why
	}
	return ""
}

// otherHolder returns the lease of a GPU that no claim holds, or that claims hold in the other
// way, alone or shared, by options of before. It returns nil if the GPU is free for claims.
func (d *driver) otherHolder(i int) *lease.State {
	s := d.seen.States[i]
	if s.Held && (s.Kind != lease.Claimed || sharedByClaims(s) != slices.Contains(d.shared, i)) {
		return &s
	}
	return nil
}

// describe writes specFile if it changes. All users of a container may open the nodes.
func (d *driver) describe(m deviceplugin.Node) error {
	spec, _, err := cdi.Spec(m.GPUs, m.KFD)
	if err != nil || spec == nil {
		return err
	}
	spec.Kind = specKind
	data, err := json.Marshal(spec)
	if err != nil || string(data) == string(d.spec) && d.root.Exists(specFile) {
		return err
	}
	if err := d.root.WriteFile(specFile, data, 0o644); err != nil {
		return fmt.Errorf("cannot describe the GPUs for container runtimes: %w", err)
	}
	d.spec = data
	return nil
}

// resources returns the slices of the node's pool.
func (d *driver) resources(devices []resourceapi.Device) resourceslice.DriverResources {
	var pool resourceslice.Pool
	for len(devices) > 0 {
		n := min(len(devices), maxDevices)
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: devices[:n]})
		devices = devices[n:]
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{d.node: pool}}
}

// HandleError implements the API. It ends the program after an error that does not pass.
func (d *driver) HandleError(_ context.Context, err error, text string) {
	err = fmt.Errorf("%s: %w", text, err)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		d.fail(err)
	}
	d.Print(err.Error())
}
