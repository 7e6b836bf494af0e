package predecessor

import (
	"gopkg.in/yaml.v3"

	"concourse-ci-machine/internal/base/resource"
)

// The exporter logged in by fly, as root, under the name exporter; fly keeps
// the token of each name in one file.
const (
	flyFile   = "/root/.flyrc"
	flyTarget = "exporter"
)

// token takes the exporter's token away where its file has no other one. A
// file with the operator's own is fly's to change.
func (l *leftovers) token() {
	if script, _ := l.has(oldExporter, "concourse_job_last_build_status"); !script {
		return // nothing tells that the name is the exporter's
	}
	data, err := l.text(flyFile)
	if err != nil {
		return
	}
	var file struct {
		Targets map[string]any `yaml:"targets"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		l.keep(flyFile, "it can't be read as fly's")
		return
	}
	if _, has := file.Targets[flyTarget]; !has {
		return
	}
	if len(file.Targets) == 1 {
		l.gone = append(l.gone, resource.Absent{Path: flyFile, Why: predecessors})
		return
	}
	l.keep(flyFile, "it has targets of yours; to be rid of the exporter's run: sudo fly --target "+flyTarget+" delete-target")
}
