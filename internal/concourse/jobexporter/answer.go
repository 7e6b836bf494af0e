package jobexporter

// Answers of Concourse 8 (atc/summary.go, atc/pipeline.go, atc/team.go), as far as this
// package uses them.

// job decodes an element of GET /api/v1/jobs: the active jobs of all pipelines that the
// user may see. These include public pipelines of other teams.
type job struct {
	Team     string         `json:"team_name"`
	Pipeline string         `json:"pipeline_name"`
	Vars     map[string]any `json:"pipeline_instance_vars"`
	Name     string         `json:"name"`
	Paused   bool           `json:"paused"`
	Finished *build         `json:"finished_build"`
	Next     *nextBuild     `json:"next_build"`
}

// build has times in Unix seconds. A missing time is left out or, in the list of all jobs,
// Go's zero time: -62135596800.
type build struct {
	Status string `json:"status"`
	Start  int64  `json:"start_time"`
	End    int64  `json:"end_time"`
}

// nextBuild describes a pending or started build: the oldest of its job.
type nextBuild struct {
	build
	ID   int    `json:"id"`
	Name string `json:"name"`
}

// pipeline decodes an element of GET /api/v1/pipelines.
type pipeline struct {
	Team     string         `json:"team_name"`
	Name     string         `json:"name"`
	Vars     map[string]any `json:"instance_vars"`
	Paused   bool           `json:"paused"`
	Archived bool           `json:"archived"`
}

// team decodes an element of GET /api/v1/teams, which lists the user's teams.
type team struct {
	Name string `json:"name"`
}

// worker decodes an element of GET /api/v1/workers: all workers for an administrator,
// otherwise those that the user's teams may use.
type worker struct {
	Name     string   `json:"name"`
	State    string   `json:"state"`
	Platform string   `json:"platform"`
	Tags     []string `json:"tags"`
	Team     string   `json:"team"` // "" for a worker of all teams
}
