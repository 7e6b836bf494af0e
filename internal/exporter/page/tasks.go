package page

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"sync"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
)

// tasksView holds the data of the page of tasks.
type tasksView struct {
	Style template.CSS
	Tasks []failedTask
	None  string
	Docs  string
}

// failedTask describes one task with its timeline.
type failedTask struct {
	verdict.Detail
	Build  string // address of its build
	Exit   string
	Rows   []timelineRow
	Events []event
}

// timelineRow is one chart. All charts have the same axis of time.
type timelineRow struct {
	Label, Text string
	Chart       *chart
}

// event is a mark on all charts.
type event struct {
	Mark int // interval of the charts
	Text string
}

// Tasks serves the last tasks that failed, with the reasons and the timeline of each.
func Tasks(report func() *verdict.Report, links Links) http.Handler {
	shared := sync.OnceValue(newCommon)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c := shared()
		v := newTasksView(report(), links)
		v.Style = template.CSS(c.style)
		c.write(w, "tasks.html", v)
	})
}

func newTasksView(r *verdict.Report, links Links) tasksView {
	v := tasksView{Docs: docs + "how-to/why-did-my-build-fail.md"}
	if r == nil {
		v.None = "This unit records no tasks."
		return v
	}
	for _, d := range r.Details {
		one := failedTask{Detail: d, Build: links.buildURL(d.Handle), Exit: "not known"}
		if d.Entry.Exit != nil {
			one.Exit = fmt.Sprint(*d.Entry.Exit)
		}
		for _, c := range d.Timeline.Charts {
			one.Rows = append(one.Rows, rowOf(c))
		}
		for _, m := range d.Timeline.Marks {
			text := m.Time.Format("15:04:05 ") + string(m.Kind) + " " + m.GPU
			one.Events = append(one.Events, event{min(m.At, width), text})
		}
		v.Tasks = append(v.Tasks, one)
	}
	if len(v.Tasks) == 0 {
		v.None = "No task failed in the time that is kept."
	}
	return v
}

// steps is the height of a chart in steps: its most is the top.
const steps = 40

func rowOf(c taskrecord.Chart) timelineRow {
	u := unit{c.Unit, max(c.Most, 1e-9) / steps, 0}
	format := "max %.0f %s"
	if c.Most < 10 {
		format = "max %.1f %s"
	}
	row := timelineRow{Label: c.Name, Chart: chartOf(u, c.Values, 0, nil), Text: fmt.Sprintf(format, c.Most, c.Unit)}
	if c.GPU != "" {
		row.Label = "GPU " + c.GPU + ": " + c.Name
	}
	row.Label = cmp.Or(row.Label, c.Unit)
	return row
}
