package actions

import (
	"fmt"
	"io"
	"strings"
	"time"

	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/lease"
	"concourse-ci-machine/internal/term"
)

// GPUStatus tells who leases each GPU, and what was counted since the boot. Where
// tasks share the GPUs it says so. In both cases it names the GPUs that are withheld.
func (c *Actions) GPUStatus(w io.Writer, f term.Format) error {
	l, gpus, on, err := c.leased()
	if err != nil {
		return err
	}
	served, err := c.servedNow()
	if err != nil {
		return err
	}
	if !on {
		if f.JSON {
			return term.JSON(w, struct {
				Sharing string   `json:"sharing"`
				Service []Served `json:"service,omitempty"`
			}{"shared", c.servedJSON(served)})
		}
		_, err := io.WriteString(w, notLeased+"\n"+serviceText(served))
		return err
	}
	r, err := c.leaseReport(l, gpus)
	if err != nil {
		return err
	}
	if f.JSON {
		return term.JSON(w, struct {
			Sharing string `json:"sharing"` // shared, exclusive
			monitor.LeaseReport
			Service []Served `json:"service,omitempty"`
		}{"exclusive", r, c.servedJSON(served)})
	}
	_, err = io.WriteString(w, leaseText(r, gpus, f)+serviceText(served))
	return err
}

func leaseText(r monitor.LeaseReport, gpus []leasedGPU, f term.Format) string {
	var b strings.Builder
	for i, g := range r.GPUs {
		state, colour := "free", term.Green
		if g.Held {
			state, colour = "held", term.Yellow
		}
		fmt.Fprintf(&b, "%s  %s", f.Column(colour, state, 4), gpus[i])
		if g.Container != "" {
			fmt.Fprintf(&b, "\n      by container %s", g.Container)
			if g.Since != nil {
				b.WriteString(" since " + clock(*g.Since, r.At))
			}
			if g.PID > 0 {
				fmt.Fprintf(&b, ", its first process is %d", g.PID)
			}
		}
		if g.Doubt != "" {
			b.WriteString("\n      in doubt: " + g.Doubt)
		}
		b.WriteByte('\n')
	}
	n := r.Counters
	fmt.Fprintf(&b, "since the boot: %d tasks got GPUs; refused: %d as too few were free, %d as the unit has fewer\n", n.Granted, n.Busy, n.Impossible)
	return b.String()
}

// GPURelease frees a GPU whose lease is not given back by itself: a damaged
// record, or one that is in doubt. A task that runs keeps its GPU unless forced.
func (c *Actions) GPURelease(w io.Writer, which string, force bool) error {
	l, gpus, on, err := c.leased()
	if err != nil {
		return err
	}
	if !on {
		return fmt.Errorf("cannot release GPU %q: %s", which, notLeased)
	}
	i, err := findGPU(gpus, "release", "leases", which)
	if err != nil {
		return err
	}
	s, err := l.Release(i, force)
	switch {
	case err != nil && s.Held && !force && s.Container != "":
		return fmt.Errorf("cannot release %s: container %s holds it%s, and its task runs or left processes behind; end the build: fly -t <target> containers shows which one has that handle, fly -t <target> abort-build ends it, as does the web page; force=true (--force) frees the lease all the same, though that container can still open the GPU",
			gpus[i], s.Container, sinceText(s, c.Host.Now()))
	case err != nil:
		return err
	case s.Held && s.Container == "":
		_, err = fmt.Fprintf(w, "%s is released; its record was damaged and did not say who held it. A container that did can still open the GPU: until its task ends, the next one shares it\n", gpus[i])
	case s.Held:
		_, err = fmt.Fprintf(w, "%s is released, which container %s held%s. That container can still open the GPU: until its task ends, the next one shares it\n",
			gpus[i], s.Container, sinceText(s, c.Host.Now()))
	case s.Container == "":
		_, err = fmt.Fprintf(w, "%s is free, there was nothing to release\n", gpus[i])
	default:
		_, err = fmt.Fprintf(w, "%s is free; container %s had it last\n", gpus[i], s.Container)
	}
	return err
}

// checkLeases is for check-status: leases that nobody can judge keep GPUs from
// tasks. A unit whose tasks share them has nothing to check.
func (c *Actions) checkLeases(r *report) {
	l, gpus, on, err := c.leased()
	if err == nil && !on {
		return
	}
	var now monitor.LeaseReport
	if err == nil {
		now, err = c.leaseReport(l, gpus)
	}
	held := 0
	for i, g := range now.GPUs {
		if g.Held {
			held++
		}
		if g.Doubt != "" {
			r.add("lease of "+gpus[i].String(), fmt.Errorf("in doubt: %s", g.Doubt), "")
		}
	}
	r.add("leases", err, fmt.Sprintf("%d of %d GPUs held", held, len(now.GPUs)))
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
