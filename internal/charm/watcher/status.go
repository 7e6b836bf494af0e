package watcher

import (
	"fmt"
	"io"
	"strings"
	"time"

	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/pool/lease"
)

// Status tells who leases each GPU, and what was counted since the boot. Where
// tasks share the GPUs it says so. In both cases it names the GPUs that are withheld.
func (u *Unit) Status(w io.Writer, f term.Format) error {
	l, gpus, on, err := u.leased()
	if err != nil {
		return err
	}
	served, err := u.servedNow()
	if err != nil {
		return err
	}
	if !on {
		sharing, why := u.notLeased()
		if f.JSON {
			return term.JSON(w, struct {
				Sharing string   `json:"sharing"`
				Service []Served `json:"service,omitempty"`
			}{sharing, u.servedJSON(served)})
		}
		_, err := io.WriteString(w, why+"\n"+serviceText(served))
		return err
	}
	r, states, err := u.leaseReport(l, gpus)
	if err != nil {
		return err
	}
	if f.JSON {
		return term.JSON(w, struct {
			Sharing string `json:"sharing"` // shared, exclusive
			monitor.LeaseReport
			Service []Served `json:"service,omitempty"`
		}{"exclusive", r, u.servedJSON(served)})
	}
	_, err = io.WriteString(w, leaseText(r, states, gpus, f)+serviceText(served))
	return err
}

func leaseText(r monitor.LeaseReport, states []lease.State, gpus []leasedGPU, f term.Format) string {
	var b strings.Builder
	for i, g := range r.GPUs {
		state, colour := "free", term.Green
		if g.Held {
			state, colour = "held", term.Yellow
		}
		fmt.Fprintf(&b, "%s  %s", f.Column(colour, state, 4), gpus[i])
		if g.Container != "" {
			b.WriteString("\n      by " + states[i].Holder())
			if g.Since != nil {
				b.WriteString(" since " + clock(*g.Since, r.At))
			}
			if g.PID > 0 {
				fmt.Fprintf(&b, ", its first process is %d", g.PID)
			}
			if look := states[i].InspectCommand(); look != "" {
				b.WriteString("\n      see " + look)
			}
		}
		if g.Doubt != "" {
			b.WriteString("\n      in doubt: " + g.Doubt)
		}
		if c := g.Clocks; c != nil {
			b.WriteString(clocksText(*c, r.At))
		}
		b.WriteByte('\n')
	}
	n := r.Counters
	fmt.Fprintf(&b, "since the boot: %d got GPUs; refused: %d as too few were free, %d as the unit has fewer\n", n.Granted, n.Busy, n.Impossible)
	return b.String()
}

// clocksText tells of clocks that are fixed.
func clocksText(c monitor.Clocks, now time.Time) string {
	if c.Level == "" {
		return "\n      nothing is known of its clocks: " + c.Why
	}
	text := fmt.Sprintf("\n      its clocks are fixed (%s) for container %s since %s", c.Level, c.Container, clock(c.Since, now))
	if c.Why != "" {
		text += "; not all that it measured counts: " + c.Why
	}
	return text
}
