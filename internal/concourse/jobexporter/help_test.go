package jobexporter_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestHelpShowsEveryFlagWithItsDefault(t *testing.T) {
	var out bytes.Buffer
	none := func(string) string { return "" }
	require.Equal(t, 0, jobexporter.Run("v1.2.3", []string{"-h"}, none, fleet.New(), &out, io.Discard))
	hosttest.Golden(t, "testdata/help.txt", out.String())
}
