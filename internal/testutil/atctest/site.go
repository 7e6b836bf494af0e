package atctest

import "embed"

//go:embed testdata
var testdata embed.FS

// answer returns the JSON of a list of Site.
func answer(name string) string {
	data, err := testdata.ReadFile("testdata/" + name + ".json")
	if err != nil {
		panic(err) // a name above is wrong
	}
	return string(data)
}

// Site fills a Concourse with two teams: jobs in every state, an instanced pipeline, a
// paused and an archived one, and three workers, one of them stalled. It includes fields
// that the exporter does not use, Concourse's time for a build that never started,
// -62135596800, and a job of an archived pipeline. Call it in Set.
func (s *Server) Site() {
	s.Answers[Teams] = answer("teams")
	s.Answers[Pipelines] = answer("pipelines")
	s.Answers[Workers] = answer("workers")
	s.Answers[ContainersOfMain] = answer("containers_main")
	s.Answers[Teams+"/dev/containers"] = answer("containers_dev")
	s.Answers[Jobs] = answer("jobs")
}
