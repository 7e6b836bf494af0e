package actions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/web"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// fleet returns a table of all workers. Every unit of the web has the same relations and
// the same Concourse, so the action runs on any of them.
func (c *Actions) fleet(ctx context.Context, u charm.Decision, params map[string]any) (map[string]any, error) {
	var b strings.Builder
	err := c.writeFleet(ctx, &b, u, term.Format{Commands: c.Commands(), JSON: params["format"] == "json"})
	if err != nil {
		return nil, err
	}
	return map[string]any{"fleet": strings.TrimSpace(b.String())}, nil
}

// ShowFleet writes the table of all workers, with Juju's facts from the last hook.
func (c *Actions) ShowFleet(ctx context.Context, w io.Writer, f term.Format) error {
	u, err := c.lastState(ctx, "show the fleet")
	if err != nil {
		return err
	}
	return c.writeFleet(ctx, w, u, f)
}

// lastState returns the unit's state with Juju's facts from the last hook.
func (c *Actions) lastState(ctx context.Context, do string) (charm.Decision, error) {
	facts, err := model.LoadFor(c.Host.Root, do)
	if err != nil {
		return charm.Decision{}, err
	}
	if facts.Unit == "" {
		return charm.Decision{}, fmt.Errorf("cannot %s: no hook has run on this machine yet", do)
	}
	c.Event = juju.Event{Name: "update-status", Unit: facts.Unit}
	return c.Decide(ctx)
}

func (c *Actions) writeFleet(ctx context.Context, w io.Writer, u charm.Decision, f term.Format) error {
	if err := checkUsable(u, "show the fleet", model.WebRole); err != nil {
		return err
	}
	var known []concourse.WorkerInfo
	err := errors.New("the web is not running; see " + c.Commands().ShowStatus())
	if u.Want.Web.Up {
		known, err = c.webAPI(u).Workers(ctx)
	}
	for i := range known { // a worker chooses its name
		known[i].Name, known[i].State = gpuhealth.Printable(known[i].Name), gpuhealth.Printable(known[i].State)
	}
	all := web.FleetOf(u.Facts.Web.SortedWorkers(), known, c.Host.Now())
	if err != nil {
		all.Unknown = gpuhealth.Printable(err.Error())
	}
	all.Page = role.FleetPage(u.Facts, u.Config.Web)
	if f.JSON {
		return term.JSON(w, all)
	}
	_, err = io.WriteString(w, strings.Join(fleetLines(all, f), "\n")+"\n")
	return err
}

// fleetLines returns a table with a line for each worker, and remarks below it.
func fleetLines(all web.Fleet, f term.Format) []string {
	rows := [][]term.Cell{
		cells("UNIT", "WORKER", "STATE", "TASKS", "GPUS", "ARCHITECTURES", "IN SERVICE", "FREE", "REPORTED",
			"NOT IN SERVICE")}
	gpus, in, out := 0, 0, 0
	var remarks []string
	for _, w := range all.Workers {
		gpus += w.GPUs
		if w.InService != nil {
			in, out = in+*w.InService, out+w.GPUs-*w.InService
		}
		rows = append(rows, fleetRow(w, all))
		if w.Problem != "" {
			remarks = append(remarks, w.Unit+" publishes what is wrong: "+w.Problem)
		}
	}
	text := fmt.Sprintf(
		"%s, %d GPUs: %d in service, %d quarantined or on probation", units.Count(len(all.Workers), "worker"), gpus,
		in, out)
	if all.Unknown != "" {
		remarks = append(remarks, "STATE and TASKS are not known: "+all.Unknown)
	}
	if all.Page != "" {
		remarks = append(remarks, "page: "+all.Page)
	}
	return append(append([]string{text}, f.Table(rows)...), remarks...)
}

// fleetRow returns the cells of a worker in the order of the table's header.
func fleetRow(w web.FleetWorker, all web.Fleet) []term.Cell {
	state, tasks := w.State, "-"
	if state == "" {
		state = "not registered"
		if all.Unknown != "" || w.Worker == "" {
			state = "-"
		}
	}
	if w.Tasks != nil {
		tasks = fmt.Sprint(*w.Tasks)
	}
	row := cells(cmp.Or(w.Unit, "-"), cmp.Or(w.Worker, "-"), state, tasks)
	if w.GPUs == 0 {
		return append(row, cells("-", "-", "-", "-", "-", "")...)
	}
	var archs, out []string
	for _, a := range w.Archs {
		archs = append(archs, fmt.Sprintf("%s=%d", a.Arch, a.GPUs))
	}
	for _, g := range w.Each {
		if g.Quarantined() {
			out = append(out, fmt.Sprintf("GPU %d %s", g.Index, g.Service))
		}
	}
	inService, free, reported := "unknown", "-", "-"
	if w.InService != nil {
		inService = fmt.Sprint(*w.InService)
	}
	if w.Since != nil {
		reported = units.Ago(all.Time.Sub(*w.Since))
	}
	if w.Platform != "" && w.InService == nil {
		inService = "0"
	}
	switch {
	case w.Free != nil:
		free = fmt.Sprint(*w.Free)
	case w.Sharing == "shared":
		free = "shared"
	}
	colour := ""
	if len(out) > 0 {
		colour = term.Yellow
	}
	row = append(row, cells(fmt.Sprint(w.GPUs), cmp.Or(strings.Join(archs, ","), "-"))...)
	row = append(row, term.Cell{Text: inService, Colour: colour})
	row = append(row, cells(free, reported)...)
	return append(row, term.Cell{Text: strings.Join(out, ", "), Colour: colour})
}

// windowsWorkers returns the running workers on Windows. Without a web that runs, and without
// keys of workers that no unit has, there are none.
func (c *Actions) windowsWorkers(ctx context.Context, u charm.Decision, related []model.Worker) (
	[]model.Worker, error) {
	if !u.Want.Web.Up || len(u.Config.Web.ExtraWorkerKeys) == 0 {
		return nil, nil
	}
	known, err := c.webAPI(u).Workers(ctx)
	if err != nil {
		return nil, err
	}
	for i := range known { // a worker chooses its name
		known[i].Name = gpuhealth.Printable(known[i].Name)
	}
	return web.RunningOnWindows(related, known), nil
}

// coverage returns the architectures of all workers. Every unit of the web has the same
// relations, so the action runs on any of them.
func (c *Actions) coverage(ctx context.Context, u charm.Decision, params map[string]any) (map[string]any, error) {
	if err := checkUsable(u, "show the coverage", model.WebRole); err != nil {
		return nil, err
	}
	related := u.Facts.Web.SortedWorkers()
	windows, err := c.windowsWorkers(ctx, u, related)
	all := web.CoverageOf(slices.Concat(related, windows), u.Config.Web.RequiredArchs)
	if err != nil {
		all.NotListed = gpuhealth.Printable(err.Error())
	}
	var b strings.Builder
	if params["format"] == "json" {
		err = term.JSON(&b, all)
	} else {
		e := yaml.NewEncoder(&b)
		e.SetIndent(2)
		err = errors.Join(e.Encode(all), e.Close())
	}
	return map[string]any{
		"coverage": strings.TrimSpace(b.String()), "missing": strings.Join(all.Missing, ","),
		"quarantined": strings.Join(all.Quarantined, ","),
	}, err
}
