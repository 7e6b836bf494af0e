package gpurun

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

func TestRequestsAreChecked(t *testing.T) {
	for text, wrong := range map[string]string{
		`{"version":1,"gpus":1}`:                                           "",
		`{"version":1,"gpu_ids":["0"],"process":{"pid":2}}`:                "",
		`{"version":2,"gpus":1}`:                                           "version 2",
		`{"version":1}`:                                                    "either a number",
		`{"version":1,"gpus":1,"gpu_ids":["0"]}`:                           "either a number",
		`{"version":1,"gpus":-1}`:                                          "1 to 512",
		`{"version":1,"gpus":513}`:                                         "1 to 512",
		`{"version":1,"gpus":1e99}`:                                        "not a request",
		`{"version":1,"gpus":1,"process":{"pid":1}}`:                       "process 1",
		`{"version":1,"gpus":1,"process":{"pid":-9}}`:                      "process -9",
		`{"version":1,"gpus":1,"arch":"` + strings.Repeat("x", 201) + `"}`: "too long",
		`{"version":1,"explain":"run-4f1c0a2b91d3"}`:                       "",
		`{"version":1,"explain":"/etc/shadow"}`:                            "no run",
		`[]`:                                                               "not a request",
		"":                                                                 "not a request",
		"null":                                                             "version 0",
	} {
		_, err := decodeRequest([]byte(text))
		if wrong == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, wrong, text)
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"version":1,"gpu_ids":["0","GPU-1a"],"memory":1,"process":{"pid":2,"start":3},"title":"x"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := decodeRequest(line)
		if err != nil {
			require.Zero(t, r)
			return
		}
		title := CleanTitle(r.Title)
		require.LessOrEqual(t, len(title), lease.MaxTitle)
		require.True(t, utf8.ValidString(title))
		require.NotContains(t, title, "\n")
	})
}

func TestLinesAreBounded(t *testing.T) {
	_, err := readLine(strings.NewReader(strings.Repeat("x", 100)), 10)
	require.ErrorContains(t, err, "more than 10 bytes")
	_, err = readLine(strings.NewReader("half"), 10)
	require.Error(t, err)
	line, err := readLine(strings.NewReader("whole\nmore"), 10)
	require.NoError(t, err)
	require.Equal(t, "whole\n", string(line))
}

func TestTitleIsTheJobOfARunner(t *testing.T) {
	for _, c := range []struct {
		env        map[string]string
		title, job string
	}{
		{map[string]string{"GITHUB_REPOSITORY": "o/r", "GITHUB_JOB": "test", "GITHUB_RUN_ID": "7"}, "o/r test #7",
			"o/r test"},
		{map[string]string{"CI_PROJECT_PATH": "g/p", "CI_JOB_NAME": "test", "CI_JOB_ID": "8"}, "g/p test #8", "g/p test"},
		{map[string]string{"JOB_NAME": "nightly", "BUILD_NUMBER": "9"}, "nightly #9", "nightly"},
		{map[string]string{"CI_REPO": "o/r", "CI_STEP_NAME": "s", "CI_PIPELINE_NUMBER": "3"}, "o/r s #3", "o/r s"},
		{map[string]string{"JOB_NAME": "x"}, "", ""},
		{nil, "", ""},
		{map[string]string{"JOB_NAME": "a\x1b[2J\nb", "BUILD_NUMBER": "1"}, "a?[2J?b #1", "a\x1b[2J\nb"},
	} {
		title, job := JobOf(func(name string) string { return c.env[name] })
		require.Equal(t, c.title, title)
		require.Equal(t, c.job, job)
	}
}

// Arguments may be secrets.
func TestTitleOfACommandHasNoArguments(t *testing.T) {
	for want, argv := range map[string][]string{
		"pytest":           {"/usr/bin/pytest", "--token=x"},
		"python3 train.py": {"python3", "/srv/train.py", "secret"},
		"python3.12":       {"/usr/bin/python3.12", "-c", "secret"},
		"sh run.sh":        {"sh", "run.sh"},
		"make":             {"make", "test"},
	} {
		require.Equal(t, want, CommandOf(argv))
	}
}
