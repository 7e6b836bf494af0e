package baseline

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPagesHaveTheFlagsAndResultsOfTheProgram(t *testing.T) {
	data, err := os.ReadFile("../../../docs/reference/gpu-baseline.md")
	require.NoError(t, err)
	page := string(data)
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)

	var flags, listed []string
	for _, command := range []string{"compare", "bisect", "ab", "junit"} {
		_, help, _ := call("", command, "--help")
		usage, _, _ := strings.Cut(strings.TrimPrefix(help, "Usage: "), "\n\n")
		require.Contains(t, page, "`"+strings.Join(strings.Fields(usage), " ")+"`")
		for _, m := range regexp.MustCompile(`(?m)^  (--?[a-z-]+(?:=\S+)?)`).FindAllStringSubmatch(help, -1) {
			flags = append(flags, m[1])
		}
	}
	slices.Sort(flags)
	_, table, ok := strings.Cut(string(readme), "\n| flag |")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
			listed = append(listed, m[1])
		}
	}
	require.ElementsMatch(t, slices.Compact(flags), listed)

	example, err := os.ReadFile("testdata/beyond-limits.txt")
	require.NoError(t, err)
	require.Contains(t, page, "\n```text\n"+strings.ReplaceAll(string(example), "testdata/limits/", "")+"```\n")

	for word := range words {
		require.Contains(t, page, "`"+word+"`", "a status")
	}
	for _, r := range []string{string(FoundOne), string(FoundRange), string(NotWorse), string(NotMeasured), string(Worse), string(NoWorse), string(Unclear), string(NotInAll)} {
		require.Regexp(t, "(?m)^- `"+r+"`:", string(readme), "an answer")
	}
	for _, r := range []Result{Within, Beyond, Regressed, Fixed, Failing, Skipped, Missing, New} {
		require.Regexp(t, "(?m)^- `"+string(r)+"`:", page, "a result")
	}

	_, report, _ := call("", "compare", in("names", "base"), in("names", "new"), "--format=json")
	require.True(t, json.Valid([]byte(report)))
	for _, file := range []string{"testdata/bisect.golden.json", "testdata/ab.golden.json"} {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		report += string(data)
	}
	page += string(readme)
	for _, m := range regexp.MustCompile(`"([a-z_]+)":`).FindAllStringSubmatch(report, -1) {
		require.Contains(t, page, "`"+m[1]+"`", "a field of the JSON")
	}
}

// The shapes on the page are read.
func TestProfilesOfThePageAreProfiles(t *testing.T) {
	data, err := os.ReadFile("../../../docs/reference/gpu-baseline.md")
	require.NoError(t, err)
	shapes := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(data), -1)
	require.Len(t, shapes, 2)
	for _, m := range shapes {
		p, err := Parse("page", []byte(m[1]))
		require.NoError(t, err)
		require.Equal(t, "matmul", p.Examples[0].Name)
		require.Equal(t, "512", p.Examples[0].Memory.String())
	}
}
