package predecessor

import (
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

// The exporter logged in with fly, as root, with the target exporter. fly stores the tokens
// of all targets in one file.
const (
	flyFile   = "/root/.flyrc"
	flyTarget = "exporter"
)

// removeToken removes fly's file if the exporter's token is the only one. The operator must
// edit a file with other tokens.
func (l *leftovers) removeToken() {
	if script, _ := l.has(oldExporter, "concourse_job_last_build_status"); !script {
		return // without the script, the target may be of the operator
	}
	data, err := l.text(flyFile)
	if err != nil {
		return
	}
	var file struct {
		Targets map[string]any `yaml:"targets"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		l.noteKept(flyFile, "it can't be read as fly's")
		return
	}
	if _, has := file.Targets[flyTarget]; !has {
		return
	}
	if len(file.Targets) == 1 {
		l.steps = append(l.steps, resource.Absent{Path: flyFile, Why: predecessors})
		return
	}
	l.noteKept(flyFile, "it has targets of yours; to be rid of the exporter's run: sudo fly --target "+
		""+flyTarget+" delete-target")
}
