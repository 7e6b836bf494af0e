package actions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/flakereport"
)

// flakesAt locates the JSON of the exporter on this machine.
var flakesAt = "http://127.0.0.1:" + strconv.Itoa(wellknown.JobsPort) + "/api/v1/flakes"

// maxLost limits the builds in the table. The JSON has all of them.
const maxLost = 20

// flakes returns a table of flaky tasks and tests.
func (c *Actions) flakes(ctx context.Context, u charm.Decision, params map[string]any) (map[string]any, error) {
	var b strings.Builder
	f := term.Format{Commands: c.Commands(), JSON: params["format"] == "json"}
	if err := c.writeFlakes(ctx, &b, u, f); err != nil {
		return nil, err
	}
	return map[string]any{"flakes": strings.TrimSpace(b.String())}, nil
}

// ShowFlakes writes the table, with Juju's facts from the last hook.
func (c *Actions) ShowFlakes(ctx context.Context, w io.Writer, f term.Format) error {
	u, err := c.lastState(ctx, "show flakes")
	if err != nil {
		return err
	}
	return c.writeFlakes(ctx, w, u, f)
}

func (c *Actions) writeFlakes(ctx context.Context, w io.Writer, u charm.Decision, f term.Format) error {
	if err := checkUsable(u, "show flakes", model.WebRole); err != nil {
		return err
	}
	switch o := u.Config.Web; {
	case !o.EnableMetrics:
		return errors.New("cannot show flakes: enable-metrics is off; run: " +
			c.Commands().SetOption("enable-metrics=true"))
	case o.FleetPage != config.FleetNames:
		return fmt.Errorf("cannot show flakes: fleet-page is %s; run: %s", o.FleetPage,
			c.Commands().SetOption("fleet-page=names"))
	}
	url := c.FlakesURL
	if url == "" {
		if !c.Host.Real() {
			return errors.New("cannot show flakes: the exporter watches this machine, not CHARM_ROOT")
		}
		url = flakesAt
	}
	var r flakereport.Report
	if err := gpuhealth.FetchJSON(ctx, url, &r); err != nil {
		return fmt.Errorf("cannot show flakes: %w; see %s", err, c.Commands().RunAction("check-status"))
	}
	if f.JSON {
		return term.JSON(w, r)
	}
	page := role.FleetPage(u.Facts, u.Config.Web)
	_, err := io.WriteString(w, strings.Join(flakeLines(r, page, c.Host.Now(), f), "\n")+"\n")
	return err
}

// flakeLines returns a table with a line for each flake, and what else is known below it.
func flakeLines(r flakereport.Report, page string, now time.Time, f term.Format) []string {
	out := []string{fmt.Sprintf("%s in %s, %s by infrastructure", units.Count(len(r.Flakes), "flake"),
		units.Count(r.Runs, "run"), units.Count(len(r.Lost), "run"))}
	if len(r.Flakes) > 0 {
		rows := [][]term.Cell{cells("TASK", "TEST", "FAILS", "RATE", "SINCE", "LAST", "EVIDENCE")}
		for _, one := range r.Flakes {
			row := cells(one.Team+":"+one.Pipeline+"/"+one.Job+"/"+one.Step, cmp.Or(one.Test, "-"), string(one.Kind),
				fmt.Sprintf("%.1f %%", 100*one.Rate), one.Since.Format(time.DateOnly), units.Ago(now.Sub(one.Last)))
			row[2].Colour = term.Yellow
			rows = append(rows, append(row, term.Cell{Text: one.Sentence}))
		}
		out = append(out, f.Table(rows)...)
	}
	for _, p := range r.Places {
		out = append(out, "place: "+p.Sentence)
	}
	for _, l := range r.Lost[:min(len(r.Lost), maxLost)] {
		out = append(out, fmt.Sprintf("%s/%s build %s %s: %s", l.Pipeline, l.Job, l.Build.Name, l.Step, l.Sentence))
	}
	if r.Unread > 0 {
		out = append(out, units.Count(r.Unread, "build")+" are still to be read")
	}
	if r.Problem != "" {
		out = append(out, "problem: "+r.Problem)
	}
	if page != "" {
		out = append(out, "page: "+page+"flakes")
	}
	return out
}
