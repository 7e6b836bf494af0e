// Package workflows holds GitHub's workflows to what keeps a stolen tag or a bad module
// from publishing: actions by commit, no kept credentials, and nothing is built with a
// right to write.
package workflows

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Container   struct{ Image string }
		Timeout     string `yaml:"timeout-minutes"` // a number, or an expression
		Steps       []struct {
			Uses string
			Run  string
			With map[string]any
		}
	}
}

func each(t *testing.T, check func(t *testing.T, text string, w workflow)) {
	t.Helper()
	all, err := filepath.Glob("../../.github/workflows/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, path := range all {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			var w workflow
			require.NoError(t, yaml.Unmarshal(data, &w))
			check(t, string(data), w)
		})
	}
}

func TestActionsArePinnedToCommits(t *testing.T) {
	pinned := regexp.MustCompile(`uses: [\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	each(t, func(t *testing.T, text string, _ workflow) {
		for line := range strings.Lines(text) {
			if strings.Contains(line, "uses:") {
				require.Regexp(t, pinned, strings.TrimSuffix(line, "\n"), "with the version as a comment, which Renovate keeps")
			}
		}
	})
}

func TestImagesArePinnedAndJobsEnd(t *testing.T) {
	each(t, func(t *testing.T, _ string, w workflow) {
		for name, job := range w.Jobs {
			require.Regexp(t, `^$|^[a-z/]+:[a-z0-9.]+@sha256:[0-9a-f]{64}$`, job.Container.Image, name)
			require.Regexp(t, `^([1-9][0-9]*|\$\{\{ inputs\.[a-z-]+ \}\})$`, job.Timeout, "%s: without timeout-minutes it may take six hours", name)
		}
	})
}

// Each of them is required of a charm in public.
func TestWorkflowsRunEachTarget(t *testing.T) {
	var all strings.Builder
	each(t, func(t *testing.T, text string, _ workflow) { all.WriteString(text) })
	for _, command := range []string{"make test", "make test-juju", "make test-loki", "make test-terraform", "make test-controller", "make test-kubernetes",
		"make e2e", "make mutate", "make site", "make vulncheck", "make charm", "make release", "charmcraft pack", "charmcraft analyse"} {
		require.Regexp(t, `(?m)`+command+`( |$)`, all.String())
	}
	require.Contains(t, all.String(), "zizmorcore/zizmor-action@")
}

func TestCheckoutsKeepNoCredentials(t *testing.T) {
	each(t, func(t *testing.T, _ string, w workflow) {
		for name, job := range w.Jobs {
			for _, s := range job.Steps {
				if strings.HasPrefix(s.Uses, "actions/checkout@") {
					require.Equal(t, false, s.With["persist-credentials"], name)
				}
			}
		}
	})
}

// Building runs code of many modules.
func TestJobsThatMayWriteBuildNothing(t *testing.T) {
	each(t, func(t *testing.T, _ string, w workflow) {
		require.NotNil(t, w.Permissions, "GitHub's default may write")
		for name, job := range w.Jobs {
			writes := false
			for _, may := range job.Permissions {
				writes = writes || may == "write"
			}
			for _, s := range job.Steps {
				built := strings.HasPrefix(s.Uses, "actions/setup-go@") || strings.HasPrefix(s.Run, "make ") && !strings.HasPrefix(s.Run, "make publish ")
				require.False(t, writes && built, "%s: %s%s", name, s.Uses, s.Run)
			}
		}
	})
}

// A text of an expression becomes part of the program, so a title of a pull request could be a
// command. A matrix has the texts of its file.
func TestProgramsHaveNoExpressions(t *testing.T) {
	each(t, func(t *testing.T, _ string, w workflow) {
		for name, job := range w.Jobs {
			for _, s := range job.Steps {
				require.NotRegexp(t, `\$\{\{ *(?:[^m ]|m[^a])`, s.Run, "%s: pass it through env", name)
			}
		}
	})
}
