package atctest

// Site is a Concourse with two teams: jobs in every state, an instanced
// pipeline, a paused and an archived one, and three workers of which one stalls. Fields that the exporter does not use
// are there as Concourse sends them, and so is its time for a build that never
// started, -62135596800, and the job of an archived pipeline. Call it under Set.
func (s *Server) Site() {
	s.Answers[Teams] = `[{"id":2,"name":"dev","auth":{"owner":{"users":["local:viewer"]}}},{"id":1,"name":"main","auth":{"owner":{"groups":[],"users":["local:admin"]}}}]`
	s.Answers[Pipelines] = `[
{"id":2,"name":"deploy","instance_vars":{"branch":"main","n":1},"paused":false,"public":false,"archived":false,"team_name":"dev","last_updated":1795267260},
{"id":3,"name":"deploy","instance_vars":{"branch":"yes","n":1},"paused":true,"paused_by":"viewer","public":false,"archived":false,"team_name":"dev","last_updated":1795267260},
{"id":4,"name":"old","paused":true,"public":false,"archived":true,"team_name":"dev","last_updated":1795267260},
{"id":1,"name":"plain","paused":false,"public":true,"archived":false,"team_name":"main","last_updated":1795267212}]`
	s.Answers[Workers] = `[
{"addr":"10.0.0.5:7777","baggageclaim_url":"http://10.0.0.5:7788","active_containers":4,"active_volumes":9,"active_tasks":1,"resource_types":[{"type":"git","image":"/git","version":"1"}],
 "platform":"linux","ephemeral":false,"tags":["gpu","compute-runtime=rocm","rocm","gpu-count=2","gfx=gfx942","gfx=gfx90a"],"team":"","name":"gpu-0-0badcafe","version":"2.5","start_time":1795260000,"state":"running"},
{"addr":"10.0.0.6:7777","active_containers":0,"platform":"linux","tags":["gpu","gfx=gfx942","gfx=gfx1100"],"team":"dev","name":"gpu-1-0badcafe","version":"2.5","start_time":1795260000,"state":"stalled"},
{"addr":"10.0.0.7:7777","active_containers":0,"platform":"linux","tags":null,"team":"","name":"plain-0-0badcafe","version":"2.5","start_time":1795260000,"state":"running"}]`
	s.Answers[ContainersOfMain] = `[
{"id":"0c3b1a52-3f6e-4f0e-6d59-0d1f2a3b4c5d","worker_name":"gpu-0-0badcafe","state":"created","type":"task","step_name":"train","pipeline_id":1,"job_id":1,"build_id":12,"pipeline_name":"plain","job_name":"succeeded","build_name":"4","working_directory":"/tmp/build/3f1a7c22"},
{"id":"7f2d9e10-5a4b-4c3d-7e8f-9a0b1c2d3e4f","worker_name":"gpu-0-0badcafe","state":"created","type":"task","step_name":"one-off","build_id":22,"build_name":"22","working_directory":"/tmp/build/2b5d8e90"}]`
	s.Answers[Teams+"/dev/containers"] = `[
{"id":"eb2a4fe8-e932-49c4-b519-4f1da1901416","worker_name":"gpu-0-0badcafe","state":"created","type":"task","step_name":"roll","attempt":"2","pipeline_id":2,"job_id":9,"build_id":23,"pipeline_name":"deploy","pipeline_instance_vars":{"branch":"main","n":1},"job_name":"ship \"it\"","build_name":"2.1","working_directory":"/tmp/build/91c0aa3e"}]`
	s.Answers[Jobs] = `[
{"id":1,"name":"succeeded","team_name":"main","pipeline_id":1,"pipeline_name":"plain","has_new_inputs":true,"groups":["all"],
 "finished_build":{"id":11,"name":"3","status":"succeeded","start_time":1795267200,"end_time":1795267321,"team_name":"main","pipeline_id":1,"pipeline_name":"plain","job_name":"succeeded"},
 "next_build":{"id":12,"name":"4","status":"started","start_time":1795267400,"end_time":-62135596800,"team_name":"main","pipeline_id":1,"pipeline_name":"plain","job_name":"succeeded"},
 "transition_build":{"id":9,"name":"1","status":"succeeded","start_time":1795260000,"end_time":1795260001,"team_name":"main","pipeline_id":1,"pipeline_name":"plain","job_name":"succeeded"},
 "inputs":[{"name":"repo","resource":"repo","trigger":true,"passed":["failed"]}],"outputs":[{"name":"image","resource":"image"}]},
{"id":2,"name":"failed","team_name":"main","pipeline_id":1,"pipeline_name":"plain","paused":true,"paused_by":"admin","paused_at":1795267260,
 "finished_build":{"id":13,"name":"1","status":"failed","start_time":1795267200,"end_time":1795267200,"team_name":"main","pipeline_id":1,"pipeline_name":"plain","job_name":"failed"}},
{"id":3,"name":"errored","team_name":"main","pipeline_id":1,"pipeline_name":"plain",
 "finished_build":{"id":14,"name":"1","status":"errored","start_time":1795267210,"end_time":1795267212,"team_name":"main","pipeline_id":1,"pipeline_name":"plain","job_name":"errored"}},
{"id":4,"name":"aborted","team_name":"main","pipeline_id":1,"pipeline_name":"plain",
 "finished_build":{"id":15,"name":"1","status":"aborted","start_time":-62135596800,"end_time":1795267221,"team_name":"main","pipeline_id":1,"pipeline_name":"plain","job_name":"aborted"}},
{"id":5,"name":"started","team_name":"main","pipeline_id":1,"pipeline_name":"plain",
 "next_build":{"id":16,"name":"1","status":"started","start_time":1795267400,"end_time":-62135596800,"team_name":"main","pipeline_id":1,"pipeline_name":"plain","job_name":"started"}},
{"id":6,"name":"pending","team_name":"main","pipeline_id":1,"pipeline_name":"plain",
 "next_build":{"id":17,"name":"1","status":"pending","start_time":-62135596800,"end_time":-62135596800,"team_name":"main","pipeline_id":1,"pipeline_name":"plain","job_name":"pending"}},
{"id":7,"name":"never","team_name":"main","pipeline_id":1,"pipeline_name":"plain"},
{"id":8,"name":"unheard-of","team_name":"main","pipeline_id":1,"pipeline_name":"plain",
 "finished_build":{"id":18,"name":"1","status":"vanished","start_time":1795267210,"end_time":1795267212,"team_name":"main","pipeline_id":1,"pipeline_name":"plain","job_name":"unheard-of"}},
{"id":9,"name":"ship \"it\"","team_name":"dev","pipeline_id":2,"pipeline_name":"deploy","pipeline_instance_vars":{"branch":"main","n":1},
 "finished_build":{"id":19,"name":"1","status":"succeeded","start_time":1795267210,"end_time":1795267212,"team_name":"dev","pipeline_id":2,"pipeline_name":"deploy","pipeline_instance_vars":{"branch":"main","n":1},"job_name":"ship \"it\""}},
{"id":10,"name":"ship \"it\"","team_name":"dev","pipeline_id":3,"pipeline_name":"deploy","pipeline_instance_vars":{"branch":"yes","n":1},
 "finished_build":{"id":20,"name":"1","status":"failed","start_time":1795267210,"end_time":1795267213,"team_name":"dev","pipeline_id":3,"pipeline_name":"deploy","pipeline_instance_vars":{"branch":"yes","n":1},"job_name":"ship \"it\""}},
{"id":11,"name":"of an archived pipeline","team_name":"dev","pipeline_id":4,"pipeline_name":"old",
 "finished_build":{"id":21,"name":"1","status":"failed","start_time":1795267210,"end_time":1795267213,"team_name":"dev","pipeline_id":4,"pipeline_name":"old","job_name":"of an archived pipeline"}}]`
}
