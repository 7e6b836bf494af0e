package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/pipelines"
)

var (
	taskVariable = regexp.MustCompile(`\(\(([a-z-]+)\)\)`)
	comment      = regexp.MustCompile(`(?m)^# ?(.*)$`)
)

// executed are all commands of fly execute: of pages, of comments of the tasks, and those that
// a machine prints.
func executed(t *testing.T, tasks map[string]string) (all []typed) {
	t.Helper()
	of := func(from string, lines []string) {
		for _, line := range lines {
			for _, argv := range simple(line) {
				if argv[0] == "fly" && strings.Contains(line, " execute ") {
					all = append(all, typed{page: from, line: line, argv: argv})
				}
			}
		}
	}
	for page, md := range pages(t) {
		of(page, blockLines(md))
	}
	for name, text := range tasks {
		var about strings.Builder
		for _, m := range comment.FindAllStringSubmatch(text, -1) {
			about.WriteString("  " + m[1] + "\n")
		}
		of(name, blockLines(about.String()))
	}
	for _, runtime := range []string{"rocm", "cuda"} {
		lines := pipelines.FirstTask("compute-runtime="+runtime, "/usr/share/concourse-ci-machine/tasks")
		of("up on "+runtime, blockLines("    "+strings.Join(lines, "\n    ")))
	}
	return all
}

// flags returns the values of a flag.
func flags(argv []string, name string) (values []string) {
	for i, word := range argv[:len(argv)-1] {
		if word == name {
			values = append(values, argv[i+1])
		}
	}
	return values
}

// fly refuses a task with a variable that it was not given.
func TestExecutedTasksHaveTheirVariables(t *testing.T) {
	tasks := map[string]string{}
	require.NoError(t, filepath.WalkDir(filepath.Join(hosttest.Source(), "pipelines/tasks"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(p) == ".yml" {
			var data []byte
			data, err = os.ReadFile(p)
			tasks[filepath.Base(p)] = string(data)
		}
		return err
	}))
	checked := map[string]int{}
	vars := map[string][]string{} // of the commands for a task in firstTasks
	for _, c := range executed(t, tasks) {
		config := flags(c.argv, "--config")
		require.Len(t, config, 1, "%s: %s", c.page, c.line)
		name := filepath.Base(config[0])
		text, ours := tasks[name]
		if !ours {
			require.Equal(t, "task.yml", name, "%s: %s: no such task", c.page, c.line)
			continue
		}
		checked[name]++
		given := flags(c.argv, "--var")
		for _, m := range taskVariable.FindAllStringSubmatch(text, -1) {
			has := len(flags(c.argv, "--load-vars-from")) > 0
			for _, v := range given {
				has = has || strings.HasPrefix(v, m[1]+"=")
			}
			assert.True(t, has, "%s: %s: fly refuses it: undefined vars: %s", c.page, c.line, m[1])
		}
		if vars[name] == nil {
			vars[name] = given
		}
		if strings.HasPrefix(name, "verify-gpu-") {
			assert.Equal(t, vars[name], given, "%s: %s: other values than another command", c.page, c.line)
		}
	}
	require.GreaterOrEqual(t, checked["verify-gpu-amd.yml"], 4, "the tutorials, the comment and up")
	require.GreaterOrEqual(t, checked["verify-gpu-cuda.yml"], 2)
}
