package jobexporter

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/webclient"
)

func none(string) string { return "" }

func TestCommandLine(t *testing.T) {
	const file = "--credentials-file=/nonexistent"
	many := "gfx0"
	for i := range 64 {
		many += fmt.Sprintf(",gfx%d", i+1)
	}
	for name, c := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"help":                 {[]string{"--help"}, 0, "--web.listen-address=ADDRESS", ""},
		"version":              {[]string{"--version"}, 0, "concourse-exporter v1.2.3\n", ""},
		"no file":              {nil, 2, "", "no --credentials-file given"},
		"unknown flag":         {[]string{"--password=x"}, 2, "", "unknown flag: --password"},
		"stray argument":       {[]string{file, "serve"}, 2, "", `cannot run concourse-exporter with "serve": want concourse-exporter [flags]; see concourse-exporter --help`},
		"missing value":        {[]string{"--credentials-file"}, 2, "", "needs an argument"},
		"no time":              {[]string{file, "--poll.interval=often"}, 2, "", `invalid argument "often" for "--poll.interval" flag`},
		"hasty watchdog":       {[]string{file, "--web.watchdog=1s"}, 2, "", "at least 2s, or 0s"},
		"too often":            {[]string{file, "--poll.interval=4s", "--poll.timeout=1s"}, 2, "", "invalid value 4s for flag --poll.interval: at least 5s"},
		"no time to answer":    {[]string{file, "--poll.timeout=0s"}, 2, "", "invalid value 0s for flag --poll.timeout: from 1s to --poll.interval, which is 30s"},
		"too long to answer":   {[]string{file, "--poll.timeout=31s"}, 2, "", "invalid value 31s for flag --poll.timeout"},
		"kept for less than 0": {[]string{file, "--poll.keep=-1s"}, 2, "", "invalid value -1s for flag --poll.keep"},
		"no architecture":      {[]string{file, "--required-archs=gfx942,"}, 2, "", `invalid argument "gfx942," for "--required-archs" flag: want architectures such as gfx90a,gfx942`},
		"no label":             {[]string{file, "--required-archs=gfx\n942"}, 2, "", "want architectures such as gfx90a,gfx942"},
		"too many":             {[]string{file, "--required-archs=" + many}, 2, "", "want at most 64 architectures"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			require.Equal(t, c.code, Run("v1.2.3", c.args, none, nil, &out, &errs))
			require.Contains(t, out.String(), c.stdout)
			require.Contains(t, errs.String(), c.stderr)
			require.Equal(t, c.stdout == "", out.Len() == 0)
			require.Equal(t, c.stderr == "", errs.Len() == 0)
		})
	}
}

func TestCredentialsFileCanComeFromTheEnvironment(t *testing.T) {
	env := func(key string) string { return map[string]string{CredentialsEnv: "/from/env"}[key] }
	_, o := newCommand("", env, nil)
	require.NoError(t, o.check(env))
	require.Equal(t, "/from/env", o.credentials)
	c, o := newCommand("", env, nil)
	require.NoError(t, c.ParseFlags([]string{"--credentials-file=/from/flag"}))
	require.NoError(t, o.check(env))
	require.Equal(t, "/from/flag", o.credentials)
}

// The page of metrics and the program's README name these numbers.
func TestLimitsAreFromThePages(t *testing.T) {
	var pages []byte
	for _, file := range []string{"../../../docs/reference/job-metrics.md", "../../../src/concourse-exporter/README.md"} {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		pages = append(pages, data...)
	}
	for _, text := range []string{
		fmt.Sprintf("over %d MiB", webclient.MaxAnswer>>20), fmt.Sprintf("over %d,%03d elements", webclient.MaxItems/1000, webclient.MaxItems%1000),
		fmt.Sprintf("over %d bytes", maxName), fmt.Sprintf("tried again after %.0f minutes", webclient.RefusedPause.Minutes()),
		fmt.Sprintf("shown for %.0f minutes more", defaultKeep.Minutes()), fmt.Sprintf("Concourse every %.0f s", defaultInterval.Seconds()),
	} {
		require.Contains(t, string(pages), text)
	}
}
