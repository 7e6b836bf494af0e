package pipelines

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

const prTag = "((pr-tag))"

func rocmPR(t *testing.T) chain {
	t.Helper()
	p := chainOf(t, "rocm-pr.yml")
	require.Len(t, p.Jobs, 1, "what one job made, another could only take from a store")
	return p
}

// hooks are what a step does by its outcome.
func (d doing) hooks() (all []doing) {
	for _, h := range []*doing{d.OnSuccess, d.OnFailure, d.OnError, d.OnAbort} {
		if h != nil {
			all = append(all, h.inside()...)
		}
	}
	return all
}

// inside are the steps in do and try, or the step itself.
func (d doing) inside() (all []doing) {
	if d.Try != nil {
		return d.Try.inside()
	}
	for _, one := range d.Do {
		all = append(all, one.inside()...)
	}
	if len(d.Do) == 0 {
		return []doing{d}
	}
	return all
}

// steps are all steps of the job, also of hooks.
func (j job) steps() []doing {
	all := append(slices.Clone(j.Plan), j.hooks()...)
	for _, d := range j.Plan {
		all = append(all, d.hooks()...)
	}
	return all
}

// ofOurs are the tasks that run nothing of the pull request's, and touch what it must not.
var ofOurs = []string{"checkout", "failed-by-infrastructure"}

func TestPullRequestsCodeRunsOnItsOwnWorkersWithoutKeys(t *testing.T) {
	p := rocmPR(t)
	for _, r := range append(p.Types, p.Resources...) {
		require.Equal(t, withBuildTags, r.Tags, r.Name)
	}
	for _, d := range p.Jobs[0].steps() {
		require.False(t, d.Privileged, d.Task)
		if d.Task == "" || slices.Contains(ofOurs, d.Task) {
			require.Equal(t, withBuildTags, d.Tags, d.Get+d.Put+d.Task)
			continue
		}
		require.Contains(t, d.Tags, prTag, d.Task)
		var own task
		read(t, filepath.Join(dir, "tasks", d.Task+".yml"), &own)
		for _, in := range own.Inputs {
			require.NotEqual(t, "pull-request", in["name"], "%s: the resource leaves its token in .git", d.Task)
		}
	}
}

// Outside of sources of resources no step has a secret, as a variable or as a param.
func TestSecretsOfPullRequestsAreFromResources(t *testing.T) {
	var p map[string]any
	read(t, filepath.Join(dir, "rocm-pr.yml"), &p)
	jobs, err := yaml.Marshal(p["jobs"])
	require.NoError(t, err)
	for _, name := range append(slices.Clone(prSecrets), buildSecrets...) {
		require.NotContains(t, string(jobs), name)
	}
	all, err := yaml.Marshal(p)
	require.NoError(t, err)
	for _, name := range buildSecrets {
		require.NotContains(t, string(all), "(("+name+"))", "a key that writes")
	}
}

func TestPullRequestStoresNothing(t *testing.T) {
	for _, d := range rocmPR(t).Jobs[0].steps() {
		if d.Put == "" {
			continue
		}
		require.Equal(t, "pull-request", d.Resource, d.Put)
		require.True(t, d.NoGet, d.Put)
		require.Subset(t, []string{"pull-request", "report", "again"}, d.Inputs, d.Put)
		require.NotEmpty(t, d.Inputs, d.Put)
	}
}

func TestTasksOfPullRequestsAreOurs(t *testing.T) {
	ran := map[string]bool{}
	for _, d := range rocmPR(t).Jobs[0].steps() {
		if d.Task != "" {
			require.Equal(t, "ci/pipelines/tasks/"+d.Task+".yml", d.File)
			ran[d.Task] = true
		}
		if d.Task == "compare-profile" {
			require.Equal(t, map[string]any{"ACCEPT": "never"}, d.Params)
		}
	}
	for _, name := range []string{"checkout", "hip-check", "unit", "profile", "compare-profile", "wheel", "gpu-verify"} {
		require.True(t, ran[name], name)
	}
}

func TestCommitOfAPullRequestIsReported(t *testing.T) {
	j := rocmPR(t).Jobs[0]
	for want, d := range map[string]*doing{"success": j.OnSuccess, "failure": j.OnFailure, "error": j.OnError} {
		first := d.inside()[0]
		require.Equal(t, want, first.Params["status"])
		require.Equal(t, "rocm", first.Params["context"])
	}
	require.Equal(t, j.OnError.Do[0], *j.OnAbort)
	i := slices.IndexFunc(j.Plan, func(d doing) bool { return d.Put != "" })
	require.Equal(t, "pending", j.Plan[i].Params["status"])
	i = slices.IndexFunc(j.Plan, func(d doing) bool { return d.Task == "compare-profile" })
	require.Equal(t, "report/comment.md", j.Plan[i].OnSuccess.Params["comment_file"])
	require.Equal(t, j.Plan[i].OnSuccess, j.Plan[i].OnFailure, "what is worse is told, too")
	require.Equal(t, j.OnFailure.Do[1], j.OnError.Do[1])
	again := j.OnFailure.Do[1].Try.inside()
	require.Equal(t, []string{"failed-by-infrastructure", ""}, []string{again[0].Task, again[1].Task}, "the comment only if the task passes")
	require.Equal(t, "again/comment.md", again[1].Params["comment_file"])
}

func TestStrangersCodeDoesNotRunByDefault(t *testing.T) {
	p := rocmPR(t)
	i := slices.IndexFunc(p.Resources, func(r resource) bool { return r.Name == "pull-request" })
	source := p.Resources[i].Source
	require.Equal(t, "((pr-disable-forks))", source["disable_forks"])
	require.Equal(t, true, source["disable_git_lfs"])
	get := p.Jobs[0].Plan[slices.IndexFunc(p.Jobs[0].Plan, func(d doing) bool { return d.Get == "pull-request" })]
	require.Empty(t, get.Params, "submodules would name servers that are asked with the token")
	require.Equal(t, "every", get.Version)
	var vars map[string]any
	read(t, filepath.Join(dir, "vars", "rocm-pr.yml"), &vars)
	require.Equal(t, true, vars["pr-disable-forks"])

	require.Equal(t, "registry-image", p.Types[0].Type)
	require.Equal(t, map[string]any{"repository": "((pr-resource-repository))", "tag": "((pr-resource-tag))"}, p.Types[0].Source, "the operator's own copy")
}
