package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
)

func TestTagsThatConcourseJoinedAreFound(t *testing.T) {
	for _, tc := range []struct {
		joined string
		tags   []string
		want   bool
	}{
		{"", nil, true},
		{"gpu", []string{"gpu"}, true},
		{"gpu_rocm", []string{"rocm", "gpu"}, true},
		{"gpu_rocm", []string{"gpu"}, false},
		{"my_gpu_rocm", []string{"rocm", "my_gpu"}, true},
		{"my_gpu", []string{"my", "gpux", "g"}, false},
		{"a_a_a_a_a_a_b", []string{"a", "a_a", ""}, false},
	} {
		require.Equal(t, tc.want, covered(tc.joined, tc.tags), "%s %v", tc.joined, tc.tags)
	}
}

func TestWaitingTasksHaveAReason(t *testing.T) {
	gpus := func(uses ...Use) (out []GPU) {
		for _, u := range uses {
			out = append(out, GPU{Use: u})
		}
		return out
	}
	worker := func(name, state, team string, tags ...string) jobexporter.Worker {
		return jobexporter.Worker{Name: name, State: state, Platform: "linux", Team: team, Tags: tags}
	}
	all := []jobexporter.Worker{worker("a", "running", "", "gpu", "rocm"), worker("b", "running", "", "gpu", "gfx=gfx90a"),
		worker("c", "stalled", "", "gpu", "big"), worker("d", "landing", "", "gpu", "big"), worker("e", "running", "vip", "own"), worker("f", "running", "", "dry")}
	shown := []Worker{{Worker: "a", GPUs: gpus(Leased, InUse)}, {Worker: "b", GPUs: gpus(Quarantined, OnProbation)}, {Worker: "c", GPUs: gpus(Free)},
		{Worker: "f"}, {Worker: "e", GPUs: gpus(Free, Leased)}}
	for tags, want := range map[string]string{
		"gfx=gfx1201_gpu":     "no worker has gfx=gfx1201",
		"gpu_rocm_gfx=gfx90a": "no worker of the team has all of these tags",
		"own":                 "no worker of the team has all of these tags",
		"":                    "no worker without tags",
		"big":                 "not running: c, d",
		"rocm":                "all 2 GPUs in use",
		"gfx=gfx90a":          "all 2 GPUs quarantined or on probation",
		"gpu":                 "no free GPU: 2 in use, 2 quarantined or on probation",
		"dry":                 "at the limit of tasks, or about to start: f",
	} {
		require.Equal(t, want, reasonOf(group{Team: "main", Platform: "linux", Type: "task", Tags: tags}, all, shown), tags)
	}
	require.Equal(t, "1 of 2 GPUs free: at the limit of tasks, or about to start", reasonOf(group{Team: "vip", Tags: "own"}, all, shown))
}
