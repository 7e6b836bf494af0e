package exporter

import (
	"slices"
	"strings"

	"concourse-ci-machine/internal/agreed"
	"concourse-ci-machine/internal/exporter/health"
)

// Explanation says in short what a reason of the health judgement means. The
// command `dispatch explain` has the whole text under the same number.
type Explanation struct {
	Code int    `json:"code"`
	Name string `json:"name"`
	Text string `json:"text"`
}

// explanations are by the words of package health's reasons.
var explanations = [...]struct {
	words string
	Explanation
}{
	{"bad memory page", memoryError},
	{"hangs or is in reset", hangError}, {"hangs and resets", hangError}, {"does not answer", hangError},
	{"PCIe", Explanation{3, agreed.GPUError(3), "The link to the machine is slower or narrower than it can be, or repeats damaged packets: transfers take longer."}},
	{" °C", heatError}, {"throttled by temperature", heatError},
	{" correctable error", Explanation{6, agreed.GPUError(6), "Errors were found and repaired. Nothing is lost; a rising number announces worse."}},
	{" deferred error", eccError}, {" uncorrectable error", eccError},
	{"XGMI links up", Explanation{8, agreed.GPUError(8), "A link between GPUs is down: work that spans several GPUs is slow, or fails."}},
}

var (
	memoryError = Explanation{1, agreed.GPUError(1), "The GPU has memory pages that lost data and are no longer used. What ran on it at that time can't be trusted."}
	hangError   = Explanation{2, agreed.GPUError(2), "The GPU does not go on, or was reset by its driver. Work that was on it is lost."}
	heatError   = Explanation{4, agreed.GPUError(4), "The GPU is so warm that it slows itself down, or soon will. See to its fans and the air around it."}
	eccError    = Explanation{7, agreed.GPUError(7), "Data was lost and could not be repaired. Results of the work that ran on the GPU can't be trusted."}
)

// explain is what is wrong with a GPU, each error once; none where it is well.
func explain(h Health) (out []Explanation) {
	if h.State != health.Warning && h.State != health.Critical {
		return nil
	}
	for _, e := range explanations {
		if strings.Contains(h.Reason, e.words) && !slices.Contains(out, e.Explanation) {
			out = append(out, e.Explanation)
		}
	}
	return out
}

// Codes are the numbers of the errors that a judgement is about, each once;
// none where the GPU is well.
func Codes(h Health) []int {
	codes := []int{}
	for _, e := range explain(h) {
		codes = append(codes, e.Code)
	}
	return codes
}
