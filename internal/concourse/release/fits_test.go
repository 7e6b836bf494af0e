package release

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWebsGiveWorkToWorkersOfTheirProtocol(t *testing.T) {
	for name, c := range map[string]struct {
		web, worker string
		fits        bool
	}{
		"the same":               {"8.2.5", "8.2.5", true},
		"another of its family":  {"8.2.5", "7.14.0", true},
		"the web is newer":       {"8.3.0", "8.2.5", false},
		"the worker is newer":    {"8.2.5", "8.3.0", false},
		"both from the border":   {"8.3.0", "9.0.1", true},
		"one is not known":       {"8.3.0", "", true},
		"one is not a version":   {"dev", "8.2.5", true},
		"ten is more than eight": {"10.0.0", "8.2.5", false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.fits, Fits(c.web, c.worker)) })
	}
}
