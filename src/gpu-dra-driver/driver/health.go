package driver

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// refresh is shorter than the 30 seconds after which the kubelet no longer trusts a report.
const refresh = 10 * time.Second

// WatchHealthStatus implements the API. The kubelet copies the report into the status of pods.
func (d *driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	for tick := time.Tick(refresh); ; {
		d.mu.Lock()
		report, changed := d.health(), d.changed
		d.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case reports <- report:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick:
		}
	}
}

// health reports each GPU. The caller holds mu.
func (d *driver) health() (r kubeletplugin.DeviceHealthReport) {
	for _, g := range d.seen.Devices {
		one := kubeletplugin.DeviceHealth{PoolName: d.node, DeviceName: nameOf(g), LastUpdated: d.now(),
			Health: kubeletplugin.HealthStatusHealthy}
		if g.Exclusion != "" {
			one.Health, one.Message = kubeletplugin.HealthStatusUnhealthy, g.Label()+" "+g.Exclusion
		}
		r.Devices = append(r.Devices, one)
	}
	return r
}

// evidence identifies a quarantine of a GPU while a claim had the GPU.
type evidence struct {
	claim lease.Claim
	gpu   string
	since time.Time
}

// name returns the name of the Event, which is the same after a restart.
func (e evidence) name(pod string) string {
	h := fnv.New64a()
	fmt.Fprintln(h, e.claim.UID, e.gpu, e.since.Unix())
	return fmt.Sprintf("%.200s.%016x", pod, h.Sum64())
}

// retryTime separates two tries to write Events.
const retryTime = 10 * time.Second

// reportEvidence gives the pods of quarantined GPUs an Event with the evidence, once. It never
// waits for the API server.
func (d *driver) reportEvidence(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sending || d.now().Sub(d.tried) < retryTime {
		return
	}
	found := map[evidence]string{}
	for i, g := range d.seen.Devices {
		for _, claim := range d.claimsOf(i) {
			e := evidence{claim, g.Address(), g.Since}
			if g.Exclusion != "" && g.Cause != "" && !d.reported[e] {
				found[e] = g.Label() + " " + g.Exclusion
			}
		}
	}
	if len(found) == 0 {
		d.ForgetEvents()
		return
	}
	d.tried, d.sending = d.now(), true
	go d.sendEvidence(ctx, found)
}

// sendEvidence writes Events. Claims get GPUs without Events, so the first failure and the recovery
// from it are only logged.
func (d *driver) sendEvidence(ctx context.Context, found map[evidence]string) {
	var failed error
	var written []evidence
	for e, text := range found {
		if err := d.createEvents(ctx, e, text); err != nil {
			failed = err
			continue
		}
		written = append(written, e)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sending = false
	for _, e := range written {
		d.reported[e] = true
	}
	d.ReportEvents(failed)
}

// askTime bounds a request to the API server.
const askTime = 5 * time.Second

// createEvents gives each pod of a claim an Event. An Event that the cluster has already is not an
// error.
func (d *driver) createEvents(ctx context.Context, e evidence, text string) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c, err := d.client.ResourceV1().ResourceClaims(e.claim.Namespace).Get(ctx, e.claim.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && string(c.UID) != e.claim.UID:
		return nil // its pods have ended
	case err != nil:
		return fmt.Errorf("cannot find the pods of a quarantined GPU: %w", err)
	}
	for _, consumer := range c.Status.ReservedFor {
		if consumer.Resource != "pods" {
			continue
		}
		at := metav1.NewTime(d.now())
		_, err := d.client.CoreV1().Events(e.claim.Namespace).Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: e.name(consumer.Name), Namespace: e.claim.Namespace},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: e.claim.Namespace,
				Name: consumer.Name, UID: consumer.UID},
			Reason: "GPUQuarantined", Message: text, Type: corev1.EventTypeWarning, Count: 1,
			FirstTimestamp: at, LastTimestamp: at, Source: corev1.EventSource{Component: Name, Host: d.node},
			ReportingController: Name, ReportingInstance: d.node,
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("cannot give a pod the evidence of its GPU: %w", err)
		}
	}
	return nil
}

var _ kubeletplugin.DRAPlugin = (*driver)(nil)
