package docs

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// questions maps each question of a new reader to the links that lead from README.md to its
// answer, two at most, and to the fact that answers it. A link is the path of a page, from
// the root, with the anchor of the section that must have the fact.
var questions = []struct {
	question string
	clicks   []string
	fact     string
}{
	{"How do I get it?", []string{"docs/tutorial/own-machine.md#set-it-up"}, "sudo apt install ./dist/packages/concourse-ci-machine_amd64.deb"},
	{"How do I deploy it with Juju?", []string{"docs/tutorial/first-rocm-task.md#2-build-and-deploy"}, "juju deploy ./docs/tutorial/bundle.yaml"},
	{"Which GPUs does it support?", []string{"docs/reference/support.md#gpus"}, "- gfx942: "},
	{"Is my card supported?", []string{"docs/reference/support.md#gpus"}, "It uses each GPU that the kernel's amdgpu driver offers"},
	{"How do I give a task one of two GPUs?", []string{"docs/how-to/choose-gpus-in-a-task.md"}, `params: {AMD_VISIBLE_DEVICES: "0"}`},
	{"How do I give each task its own GPU?", []string{"docs/how-to/share-gpus.md"}, "juju config rocm-worker gpu-sharing=exclusive"},
	{"What does `blocked: no /dev/kfd` mean?", []string{"docs/how-to/troubleshoot.md#the-unit-gets-no-gpu"}, "| `no /dev/kfd` | ROCm's compute interface was not passed through |"},
	{"How do I monitor it?", []string{"docs/how-to/monitoring.md#cos-with-an-agent-on-the-unit"}, "juju integrate rocm-worker:cos-agent opentelemetry-collector:cos-agent"},
	{"How do I upgrade Concourse?", []string{"docs/index.md", "docs/how-to/upgrade.md#upgrade-concourse"}, "juju config web version=8.2.6"},
	{"How do I upgrade the charm?", []string{"docs/index.md", "docs/how-to/upgrade.md#upgrade-the-charm"}, "juju refresh web --path ./concourse-ci-machine_amd64.charm"},
	{"How do I leave, with Juju?", []string{"docs/tutorial/first-rocm-task.md#remove-it"}, "juju remove-application web postgresql"},
	{"How do I leave, on one machine?", []string{"docs/tutorial/own-machine.md#look-after-it", "docs/reference/commands.md#on-a-machine-without-juju"}, "- `purge [--yes]`: remove the CI with all its data"},
	{"What machines does it cost?", []string{"docs/reference/sizing.md#by-builds-a-day"}, "| up to 100 | 1 unit: 2 processors, 4 GB, 20 GB disk |"},
	{"What does a build cost?", []string{"docs/reference/sizing.md", "docs/explanation/gpu-cost.md"}, "juju config web enable-metrics=true"},
	{"Where does the value of a metric come from?", []string{"docs/how-to/monitoring.md", "src/rocm-exporter/README.md#sources"}, "- `rocm_gpu_temperature`: hwmon"},
	{"What does a metric mean?", []string{"docs/how-to/monitoring.md", "docs/reference/metrics.md"}, "`rocm_gpu_temperature`"},
}

func TestQuestionsOfAReaderNeedTwoClicks(t *testing.T) {
	all := pages(t)
	for _, q := range questions {
		at, section := "README.md", all["README.md"]
		require.LessOrEqual(t, len(q.clicks), 2, q.question)
		for _, to := range q.clicks {
			page, anchor, _ := strings.Cut(to, "#")
			assert.Contains(t, linkedPages(all[at], at), page, "%s: %s has no link", q.question, at)
			at, section = page, sectionOf(all[page], anchor)
		}
		assert.Contains(t, section, q.fact, "%s: %s has no answer", q.question, q.clicks[len(q.clicks)-1])
	}
}

// linkedPages returns the paths from the root that a page links to.
func linkedPages(md, name string) (out []string) {
	for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(md, ""), -1) {
		file, _, _ := strings.Cut(m[1], "#")
		out = append(out, filepath.Join(filepath.Dir(name), file))
	}
	return out
}

// sectionOf returns the text below the heading with an anchor, up to the next heading of
// the same level or above. It returns the whole page if the anchor is "".
func sectionOf(md, anchor string) string {
	if anchor == "" {
		return md
	}
	var section strings.Builder
	level := 0
	for line := range strings.Lines(md) {
		if m := heading.FindStringSubmatch(line); m != nil {
			n := len(line) - len(strings.TrimLeft(line, "#"))
			switch {
			case level == 0 && slugs(line)[0] == anchor:
				level = n
			case n <= level:
				return section.String()
			}
		}
		if level > 0 {
			section.WriteString(line)
		}
	}
	return section.String()
}

func TestSectionEndsAtTheNextHeadingOfItsLevel(t *testing.T) {
	md := "# A\n\n## B c\n\none\n\n### D\n\ntwo\n\n## E\n\nthree\n"
	require.Equal(t, "## B c\n\none\n\n### D\n\ntwo\n\n", sectionOf(md, "b-c"))
	require.Equal(t, "### D\n\ntwo\n\n", sectionOf(md, "d"))
	require.Empty(t, sectionOf(md, "f"))
	require.Equal(t, []string{"docs/b/x.md"}, linkedPages("[x](../b/x.md#y)", "docs/a/p.md"))
}
