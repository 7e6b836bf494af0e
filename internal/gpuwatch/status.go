package gpuwatch

import (
	"fmt"
	"io"
	"strings"

	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/term"
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
		if f.JSON {
			return term.JSON(w, struct {
				Sharing string   `json:"sharing"`
				Service []Served `json:"service,omitempty"`
			}{"shared", u.servedJSON(served)})
		}
		_, err := io.WriteString(w, notLeased+"\n"+serviceText(served))
		return err
	}
	r, err := u.leaseReport(l, gpus)
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
