package gpurun

import (
	"path/filepath"
	"strings"
)

// runner describes the variables with which a runner names the job of a command.
type runner struct {
	repository string // or the name of the job's project
	job        string
	number     string // of this try, which the job's reruns do not share
}

// runners lists variables that runners set, by their documentation.
var runners = []runner{
	{"GITHUB_REPOSITORY", "GITHUB_JOB", "GITHUB_RUN_ID"}, // also Gitea and Forgejo
	{"CI_PROJECT_PATH", "CI_JOB_NAME", "CI_JOB_ID"},      // GitLab
	{"BUILDKITE_PIPELINE_SLUG", "BUILDKITE_LABEL", "BUILDKITE_BUILD_NUMBER"},
	{"JOB_NAME", "STAGE_NAME", "BUILD_NUMBER"},        // Jenkins
	{"CI_REPO", "CI_STEP_NAME", "CI_PIPELINE_NUMBER"}, // Woodpecker
}

// JobOf returns the title of a runner's job from the environment of its command, and a name
// that its reruns share. Both are "" outside of a runner.
func JobOf(env func(string) string) (title, job string) {
	for _, r := range runners {
		repository, number := env(r.repository), env(r.number)
		if repository == "" || number == "" {
			continue
		}
		job = strings.TrimSpace(repository + " " + env(r.job))
		return CleanTitle(job + " #" + number), job[:min(len(job), maxName)]
	}
	return "", ""
}

// CommandOf returns a command for people: its program and arguments may hold secrets, so
// only the program's name is shown, and of an interpreter also the script's.
func CommandOf(argv []string) string {
	name := filepath.Base(argv[0])
	if len(argv) > 1 && !strings.HasPrefix(argv[1], "-") && isInterpreter(name) {
		name += " " + filepath.Base(argv[1])
	}
	return name
}

func isInterpreter(name string) bool {
	name = strings.TrimRight(name, "0123456789.")
	return name == "python" || name == "bash" || name == "sh"
}
