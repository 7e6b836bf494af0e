package jobexporter

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/webclient"
)

// The families. The first six have the names, labels and values of the Python charm's
// exporter, so two of its gauges end in _total.
const (
	jobStatus = iota
	jobDuration
	jobTimestamp
	pipelinesTotal
	jobsTotal
	exporterInfo

	jobPaused
	pipelinePaused
	pipelinesArchived
	teams
	requiredArch
	jobFailures
	containerInfo
	up
	lastSuccess
	pollDuration
	polls
	skipped
	flaky
	lostRuns
)

// Family describes all series of one name.
type Family struct {
	Name, Help string
	Type       prometheus.ValueType
	Labels     []string

	desc *prometheus.Desc
}

func gauge(name, help string, labels ...string) Family {
	return Family{name, help, prometheus.GaugeValue, labels, prometheus.NewDesc(name, help, labels, nil)}
}

func counter(name, help string, labels ...string) Family {
	f := gauge(name, help, labels...)
	f.Type = prometheus.CounterValue
	return f
}

// Families returns all metrics, in the order of their documentation.
func Families() []Family { return families[:] }

var families = [...]Family{
	jobStatus: gauge("concourse_job_last_build_status",
		"Result of the last finished or first build: 1 succeeded, 0 failed, -1 errored, -2 aborted, "+
			"-3 started, -4 pending or never built, -999 unknown.", "job", "pipeline", "team"),
	jobDuration: gauge("concourse_job_last_build_duration_seconds",
		"Duration of the last finished build in seconds.",
		"job", "pipeline", "status", "team"),
	jobTimestamp: gauge("concourse_job_last_build_timestamp",
		"End of the last finished build, in seconds since 1970.", "job", "pipeline", "status", "team"),
	pipelinesTotal: gauge("concourse_pipelines_total", "Pipelines, including archived ones and each instance."),
	jobsTotal:      gauge("concourse_jobs_total", "Jobs of all pipelines that are not archived."),
	exporterInfo:   gauge("concourse_exporter_info", "Always 1; the exporter's version.", "version"),

	jobPaused: gauge("concourse_job_paused",
		"1 if the job is paused; a paused pipeline has no effect.", "job", "pipeline", "team"),
	pipelinePaused: gauge("concourse_pipeline_paused",
		"1 if the pipeline is paused; not of archived ones.", "pipeline", "team"),
	pipelinesArchived: gauge("concourse_pipelines_archived", "Archived pipelines."),
	teams:             gauge("concourse_teams", "Teams visible to the exporter's user."),
	requiredArch:      gauge("concourse_required_arch_workers", "Running workers with the architecture.", "arch"),
	jobFailures: gauge("concourse_job_consecutive_failures",
		"Builds in a row that failed or errored since the exporter started, without aborted ones.",
		"job", "pipeline", "team"),
	containerInfo: gauge("concourse_container_info",
		"Always 1; the build of a task's container, until 5 minutes after its end. fly execute has no "+
			"pipeline and job.", "build", "container", "job_name", "pipeline", "step", "team", "worker"),
	up: gauge("concourse_exporter_up", "1 if Concourse answered the last poll."),
	lastSuccess: gauge("concourse_exporter_last_success_timestamp_seconds",
		"Time of Concourse's last answer, in seconds since 1970."),
	pollDuration: gauge("concourse_exporter_poll_duration_seconds", "Duration of the last poll in seconds."),
	polls:        counter("concourse_exporter_polls_total", "Polls by result.", "result"),
	skipped: gauge("concourse_exporter_skipped",
		"Not shown: no name, a name over 1024 bytes, a duplicate, or containers beyond 5000.", "kind"),
	flaky: gauge("concourse_flakes", "Flaky tasks and tests, by the place on which they fail.", "place"),
	lostRuns: gauge("concourse_infrastructure_failures",
		"Runs that infrastructure ended in 30 days, by cause.", "cause"),
}

// FlakeMetrics returns the metrics of the page of flakes: flakes by place and runs that
// infrastructure ended by cause.
func FlakeMetrics(flakes, lost map[string]int) (out []prometheus.Metric) {
	for place, n := range flakes {
		out = append(out, metric(flaky, float64(n), place))
	}
	for cause, n := range lost {
		out = append(out, metric(lostRuns, float64(n), cause))
	}
	return out
}

// metric takes the values of the family's labels in their order. It panics if their number
// differs, or if one is not UTF-8, which JSON always is.
func metric(family int, value float64, labels ...string) prometheus.Metric {
	f := &families[family]
	return prometheus.MustNewConstMetric(f.desc, f.Type, value, labels...)
}

// Values of concourse_job_last_build_status, as in the predecessor.
var (
	finishedValues = map[string]float64{"succeeded": 1, "failed": 0, "errored": -1, "aborted": -2}
	runningValues  = map[string]float64{"started": -3, "pending": neverBuilt}
)

const (
	neverBuilt    = -4
	unknownStatus = -999
)

// results are the values of the label result, in order; see Poller.Poll.
var results = []result{resultOK, resultCredentials, webclient.Login, webclient.Refused, webclient.Failing,
	webclient.Unreachable, webclient.Answer}

// view collects the metrics of one answer.
type view struct {
	metrics []prometheus.Metric
	seen    map[string]bool
	skipped map[string]int // by kind
	jobs    int
	lines   int                // pipelines
	archive map[[2]string]bool // archived pipelines, by team and name
	before  streaks            // of the previous answer
	streaks streaks            // of the jobs in this answer
	started []Started          // without those of fly execute
}

func newView(before streaks) *view {
	return &view{seen: map[string]bool{}, skipped: map[string]int{}, archive: map[[2]string]bool{}, before: before,
		streaks: streaks{}}
}

func (v *view) put(family int, value float64, labels ...string) {
	v.metrics = append(v.metrics, metric(family, value, labels...))
}

// named reports whether an object can be shown. Two objects with equal labels would make
// Prometheus reject the whole scrape.
func (v *view) named(kind string, names ...string) bool {
	key := kind
	for _, n := range names {
		if n == "" || len(n) > maxName {
			v.skipped[kind]++
			return false
		}
		key += "\x00" + n
	}
	if v.seen[key] {
		v.skipped[kind]++
		return false
	}
	v.seen[key] = true
	return true
}

// addJob comes after all calls of addPipeline, because Concourse continues to list the jobs
// of archived pipelines.
func (v *view) addJob(j job) {
	ref := Reference(j.Pipeline, j.Vars)
	if v.archive[[2]string{j.Team, ref}] {
		return
	}
	v.jobs++
	if j.Pipeline == "" || !v.named("job", j.Team, ref, j.Name) {
		if j.Pipeline == "" {
			v.skipped["job"]++
		}
		return
	}
	if n := j.Next; n != nil && n.Status == "started" && n.ID > 0 && len(n.Name) <= maxName &&
		len(v.started) < maxTasks {
		b := Build{Team: j.Team, Pipeline: ref, Job: j.Name, Name: n.Name, ID: n.ID}
		v.started = append(v.started, Started{Build: b})
	}
	value := float64(neverBuilt)
	switch {
	case j.Finished != nil:
		value = lookup(finishedValues, j.Finished.Status)
	case j.Next != nil:
		value = lookup(runningValues, j.Next.Status)
	}
	v.put(jobStatus, value, j.Name, ref, j.Team)
	v.put(jobPaused, truth(j.Paused), j.Name, ref, j.Team)
	key := [3]string{j.Team, ref, j.Name}
	v.streaks[key] = v.before[key].then(j.Finished)
	v.put(jobFailures, float64(v.streaks[key].builds), j.Name, ref, j.Team)
	b := j.Finished
	if b == nil || b.End <= 0 {
		return
	}
	status := b.Status
	if _, known := finishedValues[status]; !known {
		status = "unknown" // a label must not have text from outside
	}
	v.put(jobTimestamp, float64(b.End), j.Name, ref, status, j.Team)
	if b.Start > 0 && b.Start <= b.End {
		v.put(jobDuration, float64(b.End-b.Start), j.Name, ref, status, j.Team)
	}
}

func lookup(values map[string]float64, status string) float64 {
	if value, ok := values[status]; ok {
		return value
	}
	return unknownStatus
}

func (v *view) addPipeline(p pipeline) {
	v.lines++
	ref := Reference(p.Name, p.Vars)
	switch {
	case p.Name == "":
		v.skipped["pipeline"]++
	case !v.named("pipeline", p.Team, ref):
	case p.Archived:
		v.archive[[2]string{p.Team, ref}] = true
	default:
		v.put(pipelinePaused, truth(p.Paused), ref, p.Team)
	}
}

// archWorkers counts the running workers of each required architecture. Other workers can't
// run a build.
type archWorkers map[string]int

func (n archWorkers) add(w worker) {
	for arch := range n {
		if w.State == "running" && slices.Contains(w.Tags, "gfx="+arch) {
			n[arch]++
		}
	}
}

// finish adds the sums.
func (v *view) finish(teamsSeen int) []prometheus.Metric {
	v.put(jobsTotal, float64(v.jobs))
	v.put(pipelinesTotal, float64(v.lines))
	v.put(pipelinesArchived, float64(len(v.archive)))
	v.put(teams, float64(teamsSeen))
	for _, kind := range []string{"container", "job", "pipeline"} {
		v.put(skipped, float64(v.skipped[kind]), kind)
	}
	return v.metrics
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds returns seconds since 1970, with thousandths.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
