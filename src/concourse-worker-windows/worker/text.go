package worker

import (
	"fmt"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
)

// text returns the status for people.
func (st Status) text(now time.Time) string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-13s %s\n", name, fmt.Sprintf(format, args...))
	}
	if st.Problem != "" {
		row("problem", "%s", st.Problem)
	}
	if !st.Service.Installed {
		return b.String()
	}
	row("service", "%s as %s", st.Service.State, st.Service.Account)
	if s := st.Settings; s != nil {
		row("worker", "%s at %s", s.Name, s.TSAHost)
		row("registration", "%s", strings.TrimSpace(string(st.Registration.State)+" "+st.Registration.Why))
	}
	if s := st.State; s != nil {
		if s.PID > 0 {
			started := units.Count(s.Starts, "time")
			row("process", "%d since %s, started %s", s.PID, units.Ago(now.Sub(s.Since)), started)
		}
		row("tags", "%s", strings.Join(s.Tags, ", "))
		if st.Settings != nil {
			row("work folder", "%s: %s", st.Settings.WorkDir, usage(*s, st.Settings.LimitGB))
		}
	}
	if st.PublicKey != "" {
		row("public key", "%s", st.PublicKey)
	}
	return b.String()
}

// rowsText returns the rows of a check for people, with a fix below each row that has one.
func rowsText(rows []Row) string {
	var b strings.Builder
	count := map[Level]int{}
	for _, r := range rows {
		count[r.Level]++
		fmt.Fprintf(&b, "%-8s %-25s %s\n", r.Level, r.Name, r.Text)
		if r.Fix != "" && r.Level != OK {
			fmt.Fprintf(&b, "%-8s %-25s -> %s\n", "", "", r.Fix)
		}
	}
	fmt.Fprintf(&b, "%d ok, %s, %d failed\n", count[OK], units.Count(count[Warning], "warning"), count[Failed])
	return b.String()
}
