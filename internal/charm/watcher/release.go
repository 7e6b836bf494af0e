package watcher

import (
	"fmt"
	"io"
	"strings"
	"time"

	"concourse-ci-machine/internal/pool/lease"
)

// Release frees a GPU whose lease is not given back by itself: a damaged
// record, or one that is in doubt. A task that runs keeps its GPU unless forced.
func (u *Unit) Release(w io.Writer, which string, force bool) error {
	l, gpus, on, err := u.leased()
	if err != nil {
		return err
	}
	if !on {
		_, why := u.notLeased()
		return fmt.Errorf("cannot release GPU %q: %s", which, why)
	}
	i, err := findGPU(gpus, "release", "leases", which)
	if err != nil {
		return err
	}
	s, err := l.Release(i, force)
	switch {
	case err != nil && s.Held && !force && s.Container != "":
		return fmt.Errorf("cannot release %s: %s holds it%s%s; force=true (--force) frees the lease all the same, though whoever has it can still open the GPU",
			gpus[i], s.Holder(), sinceText(s, u.Host.Now()), endOf(s))
	case err != nil:
		return err
	case s.Held && s.Container == "":
		_, err = fmt.Fprintf(w, "%s is released; its record was damaged and did not say who held it. Whoever did can still open the GPU: until that ends, the next one shares it\n", gpus[i])
	case s.Held:
		_, err = fmt.Fprintf(w, "%s is released, which %s held%s. It can still open the GPU: until it ends, the next one shares it\n",
			gpus[i], s.Holder(), sinceText(s, u.Host.Now()))
	case s.Container == "":
		_, err = fmt.Fprintf(w, "%s is free, there was nothing to release\n", gpus[i])
	default:
		_, err = fmt.Fprintf(w, "%s is free; %s had it last\n", gpus[i], s.Holder())
	}
	return err
}

// endOf says how a holder is ended.
func endOf(s lease.State) string {
	see := ""
	if look := s.InspectCommand(); look != "" {
		see = " (" + look + " shows it)"
	}
	switch s.Kind {
	case lease.Pod:
		return "; delete the pod" + see
	case lease.Container:
		return "; stop the container" + see
	}
	return ", and it runs or left processes behind; end the build: fly -t <target> containers shows which one has that handle, fly -t <target> abort-build ends it, as does the web page"
}

func sinceText(s lease.State, now time.Time) string {
	if s.Since.IsZero() {
		return ""
	}
	return " since " + clock(s.Since, now)
}

// findGPU takes the number that gpu-device-ids has, the name of the lease, the
// unique id, or the PCI address of a GPU without partitions.
// verb is what is to be done with it, and has what the unit does with GPUs, for messages.
func findGPU(gpus []leasedGPU, verb, has, which string) (int, error) {
	which = strings.TrimSpace(which)
	var found, known []string
	at := -1
	for i, g := range gpus {
		known = append(known, strings.TrimPrefix(g.String(), "GPU "))
		if g.index >= 0 && which == fmt.Sprint(g.index) || strings.EqualFold(which, g.name) || strings.EqualFold(which, g.id) && g.id != "" || strings.EqualFold(which, g.pci) && g.pci != "" {
			found, at = append(found, g.String()), i
		}
	}
	switch len(found) {
	case 1:
		return at, nil
	case 0:
		return -1, fmt.Errorf("cannot %s GPU %q: this unit %s %s", verb, which, has, strings.Join(known, ", "))
	}
	return -1, fmt.Errorf("cannot %s GPU %q: that is %s; name one of them", verb, which, strings.Join(found, " and "))
}
