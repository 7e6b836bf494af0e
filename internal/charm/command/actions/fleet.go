package actions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/charm/config"
	"concourse-ci-machine/internal/charm/gpuhealth"
	"concourse-ci-machine/internal/charm/juju"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/web"
	"concourse-ci-machine/internal/concourse"
)

// fleet tells of all workers. Every web sees the same relations and the same Concourse, so
// any of its units can tell.
func (c *Actions) fleet(ctx context.Context, u unitNow, params map[string]any) (map[string]any, error) {
	var b strings.Builder
	err := c.writeFleet(ctx, &b, u, term.Format{JSON: params["format"] == "json"})
	if err != nil {
		return nil, err
	}
	return map[string]any{"fleet": strings.TrimSpace(b.String())}, nil
}

// ShowFleet does so on the unit, by what Juju said in the last hook.
func (c *Actions) ShowFleet(ctx context.Context, w io.Writer, f term.Format) error {
	facts, err := model.LoadFor(c.Host.Root, "show the fleet")
	if err != nil {
		return err
	}
	if facts.Unit == "" {
		return errors.New("cannot show the fleet: no hook has run on this machine yet")
	}
	c.Event = juju.Event{Name: "update-status", Unit: facts.Unit}
	var u unitNow
	d, err := c.Decide(ctx)
	if err != nil {
		return err
	}
	u.Facts, u.Want, u.Problems = d.Facts, d.Want, d.Problems
	u.Config, _ = config.Parse(u.Facts.Config, u.Facts.Secrets)
	return c.writeFleet(ctx, w, u, f)
}

func (c *Actions) writeFleet(ctx context.Context, w io.Writer, u unitNow, f term.Format) error {
	if err := u.usable("show the fleet", model.WebRole); err != nil {
		return err
	}
	var known []concourse.WorkerInfo
	err := errors.New("the web is not running; juju status says why")
	if u.Want.Web.Up {
		known, err = c.api(u).Workers(ctx)
	}
	for i := range known { // a worker may call itself anything
		known[i].Name, known[i].State = gpuhealth.Printable(known[i].Name), gpuhealth.Printable(known[i].State)
	}
	all := web.FleetOf(u.Facts.Web.SortedWorkers(), known, c.Host.Now())
	if err != nil {
		all.Unknown = gpuhealth.Printable(err.Error())
	}
	if f.JSON {
		return term.JSON(w, all)
	}
	_, err = io.WriteString(w, strings.Join(fleetLines(all, f), "\n")+"\n")
	return err
}

// fleetLines are a table with a line for each worker, and remarks.
func fleetLines(all web.Fleet, f term.Format) []string {
	rows := [][]term.Cell{{{Text: "UNIT"}, {Text: "WORKER"}, {Text: "STATE"}, {Text: "TASKS"}, {Text: "GPUS"}, {Text: "ARCHITECTURES"},
		{Text: "IN SERVICE"}, {Text: "FREE"}, {Text: "TOLD"}, {Text: "OUT OF SERVICE"}}}
	gpus, in, out, older := 0, 0, 0, 0
	var remarks []string
	for _, w := range all.Workers {
		gpus += w.GPUs
		if w.InService != nil {
			in, out = in+*w.InService, out+w.GPUs-*w.InService
		} else {
			older += w.GPUs
		}
		rows = append(rows, fleetRow(w, all))
		if w.Problem != "" {
			remarks = append(remarks, w.Unit+" publishes what is wrong: "+w.Problem)
		}
	}
	text := fmt.Sprintf("%s, %d GPUs: %d in service, %d withheld or on trial", number(len(all.Workers), "worker"), gpus, in, out)
	if older > 0 {
		text += fmt.Sprintf(", %d not told", older)
		remarks = append(remarks, "not told: an older charm says no more than how many GPUs a unit has; refresh it")
	}
	if all.Unknown != "" {
		remarks = append(remarks, "STATE and TASKS are not known: "+all.Unknown)
	}
	return append(append([]string{text}, f.Table(rows)...), remarks...)
}

func fleetRow(w web.FleetWorker, all web.Fleet) []term.Cell {
	texts := []string{orDash(w.Unit), orDash(w.Worker), w.State, "-", "-", "-", "-", "-", "-", ""}
	if w.State == "" {
		texts[2] = map[bool]string{true: "-", false: "not registered"}[all.Unknown != "" || w.Worker == ""]
	}
	if w.Tasks != nil {
		texts[3] = fmt.Sprint(*w.Tasks)
	}
	if w.GPUs > 0 {
		var archs, out []string
		for _, a := range w.Archs {
			archs = append(archs, fmt.Sprintf("%s=%d", a.Arch, a.GPUs))
		}
		for _, g := range w.Each {
			if g.Quarantined() {
				out = append(out, fmt.Sprintf("GPU %d %s", g.Index, g.Service))
			}
		}
		texts[4], texts[5], texts[9] = fmt.Sprint(w.GPUs), orDash(strings.Join(archs, ",")), strings.Join(out, ", ")
		if texts[6] = "not told"; w.InService != nil {
			texts[6], texts[8] = fmt.Sprint(*w.InService), ago(all.Time.Sub(*w.Since))
		}
		switch {
		case w.Free != nil:
			texts[7] = fmt.Sprint(*w.Free)
		case w.Sharing == "shared":
			texts[7] = "shared"
		}
	}
	row := make([]term.Cell, len(texts))
	for i, text := range texts {
		row[i].Text = text
	}
	if texts[9] != "" {
		row[6].Colour, row[9].Colour = term.Yellow, term.Yellow
	}
	return row
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func number(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ago is a time in its largest unit.
func ago(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return fmt.Sprintf("%dd ago", int(d.Hours()/24))
}
