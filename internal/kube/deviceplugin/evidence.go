package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// evidence identifies a quarantine of a GPU while a pod had the GPU.
type evidence struct {
	namespace, pod, gpu string
	since               int64 // Unix time of the quarantine
}

// event is the Event for a pod with a quarantined GPU.
type event struct {
	evidence
	uid, text string
}

// name returns the name of the Event, which is the same after a restart.
func (e event) name() string {
	h := fnv.New64a()
	fmt.Fprintln(h, e.uid, e.gpu, e.since)
	return fmt.Sprintf("%.200s.%016x", e.pod, h.Sum64())
}

// outcome describes a try to write Events.
type outcome struct {
	written []evidence
	err     error
}

// retryTime is the time between two tries to write Events.
const retryTime = 10 * time.Second

// reportEvidence gives the pods of quarantined GPUs an Event with the evidence, once. It never
// waits for the API server. Pods get GPUs without Events, so the first error is only logged.
func (p *plugin) reportEvidence(ctx context.Context) {
	select {
	case o := <-p.outcomes:
		p.sending = false
		for _, e := range o.written {
			p.reported[e] = true
		}
		p.ReportEvents(o.err)
	default:
	}
	if p.sending || p.now().Sub(p.tried) < retryTime {
		return
	}
	events, err := p.missingEvents()
	if err == nil && len(events) == 0 {
		p.ForgetEvents()
		return
	}
	p.tried, p.sending = p.now(), true
	go func(now time.Time) { p.outcomes <- writeEvents(ctx, p.root, now, events, err) }(p.tried)
}

// missingEvents returns the Events that the cluster does not have yet.
func (p *plugin) missingEvents() (events []event, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.ContainsFunc(p.seen.devices, func(d device) bool { return d.exclusion != "" }) {
		return nil, nil
	}
	record, err := quarantine.RecordFile.Read(p.root)
	if err != nil {
		return nil, err
	}
	for _, u := range p.uses {
		for _, id := range u.ids {
			i := p.seen.gpuOf(id)
			if i < 0 || p.seen.devices[i].exclusion == "" {
				continue
			}
			d := p.seen.devices[i]
			q, of := record.Find(d.id()), strings.SplitN(u.container, "/", 3)
			if q == nil || q.QuarantinedSince == nil {
				continue
			}
			e := event{evidence: evidence{of[0], of[1], d.id(), q.QuarantinedSince.Unix()},
				text: d.label() + " " + d.exclusion}
			if p.reported[e.evidence] {
				continue
			}
			uid, unknown := p.uidOf(of[2], id)
			if unknown != nil {
				err = errors.Join(err, fmt.Errorf("cannot find the UID of pod %s/%s: %w", e.namespace, e.pod, unknown))
				continue
			}
			e.uid = uid
			events = append(events, e)
		}
	}
	return events, err
}

// uidOf returns the UID of the pod with this container and device. The kubelet's list of pods
// lacks UIDs, and its notes have them.
func (p *plugin) uidOf(container, id string) (string, error) {
	notes, err := readNotes(p.socketDir(), nil)
	if err != nil {
		return "", err
	}
	for _, n := range notes {
		if n.ContainerName == container && isOurs(n.ResourceName) && slices.Contains(n.ids(), id) && n.PodUID != "" {
			return n.PodUID, nil
		}
	}
	return "", fmt.Errorf("%s lacks it", notesFile)
}

// writeEvents writes Events with the credentials of the kubelet or of the pod's account. It adds to
// the errors of before.
func writeEvents(ctx context.Context, root host.Root, now time.Time, events []event, before error) outcome {
	r := outcome{err: before}
	if len(events) == 0 {
		return r
	}
	c, err := connect(root)
	if err != nil {
		r.err = errors.Join(before, fmt.Errorf("cannot give a pod the evidence of its GPU: %w", err))
		return r
	}
	for _, e := range events {
		err := c.createEvent(ctx, e, now)
		if err == nil {
			r.written = append(r.written, e.evidence)
			continue
		}
		r.err = errors.Join(r.err, fmt.Errorf("cannot give pod %s/%s the evidence of its GPU: %w", e.namespace,
			e.pod, err))
	}
	return r
}
