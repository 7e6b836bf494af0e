package watcher

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// Status shows who leases each GPU, the counters since the boot, and the quarantined GPUs.
func (u *Unit) Status(w io.Writer, f term.Format) error {
	if !f.JSON {
		if err := u.checkOptions(); err != nil {
			fmt.Fprintln(w, "warning:", err)
		}
	}
	l, err := u.readLeases()
	if err != nil {
		return err
	}
	served, err := u.readRecorded()
	if err != nil {
		return err
	}
	if l == nil {
		sharing, why := u.sharingState()
		if f.JSON {
			return term.JSON(w, struct {
				Sharing string          `json:"sharing"`
				Service []ServiceStatus `json:"service,omitempty"`
			}{sharing, u.serviceJSON(served)})
		}
		_, err := io.WriteString(w, why+"\n"+u.serviceText(served))
		return err
	}
	r, states, err := u.leaseReport(l)
	if err != nil {
		return err
	}
	if f.JSON {
		return term.JSON(w, struct {
			Sharing string `json:"sharing"` // shared, exclusive
			pool.Report
			Service []ServiceStatus `json:"service,omitempty"`
		}{l.sharing(), r, u.serviceJSON(served)})
	}
	text := u.leaseText(r, states, l.gpus, served, f)
	if l.shared {
		text += "containers share the GPUs; to lease them: sudo " + u.Commands.Name() +
			" runtime configure <engine> --exclusive\n"
	}
	_, err = io.WriteString(w, text+u.serviceText(served))
	return err
}

// sharing returns how containers use the GPUs.
func (l *unitLeases) sharing() string {
	if l.shared {
		return "shared"
	}
	return "exclusive"
}

func (u *Unit) leaseText(
	r pool.Report, states []lease.State, gpus []gpu.Slot, served []pool.Record, f term.Format,
) string {
	excluded := map[string]string{}
	for _, s := range served {
		if s.Service.State != quarantine.InService {
			excluded[s.Service.Name] = s.Service.State.String()
		}
	}
	var b strings.Builder
	for i, g := range r.GPUs {
		state, colour := "free", term.Green
		if g.Held {
			state, colour = "held", term.Yellow
		} else if text := excluded[g.Name]; text != "" {
			state, colour = text, term.Red
		}
		fmt.Fprintf(&b, "%s  %s", f.Column(colour, state, 4), gpus[i])
		if g.Container != "" {
			b.WriteString("\n      by " + states[i].Holder())
			if g.Since != nil {
				b.WriteString(" since " + formatTime(*g.Since, r.At))
			}
			if g.PID > 0 {
				fmt.Fprintf(&b, ", its first process is %d", g.PID)
			}
			if look := states[i].InspectCommand(); look != "" {
				b.WriteString("\n      see " + look)
			}
		}
		if g.Doubt != "" {
			b.WriteString("\n      in doubt: " + u.doubtText(g))
		}
		if c := g.Clocks; c != nil {
			b.WriteString(clocksText(*c, r.At))
		}
		b.WriteByte('\n')
	}
	n := r.Counters
	fmt.Fprintf(&b, "since the boot: %d got GPUs; refused: %d as too few were free, %d as the %s has fewer\n",
		n.Granted, n.Busy, n.Impossible, u.place())
	return b.String()
}

// clocksText returns the text on fixed clocks.
func clocksText(c pool.Clocks, now time.Time) string {
	if c.Level == "" {
		return "\n      nothing is known of its clocks: " + c.Why
	}
	text := fmt.Sprintf("\n      its clocks are fixed (%s) for %s since %s", c.Level, holderName(c.Container),
		formatTime(c.Since, now))
	if c.Why != "" {
		text += "; not all that it measured counts: " + c.Why
	}
	return text
}
