package status

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatusIsTheWorstCauseAndNamesAll(t *testing.T) {
	for name, tt := range map[string]struct {
		causes []Cause
		want   string
	}{
		"none":                      {nil, "active: Ready"},
		"remarks follow the text":   {[]Cause{{Active, "no toolkit"}, {Active, "no metrics"}}, "active: Ready; no toolkit; no metrics"},
		"waiting hides ready":       {[]Cause{{Active, "no toolkit"}, {Waiting, "no web"}}, "waiting: no web; no toolkit"},
		"blocked comes first":       {[]Cause{{Waiting, "no web"}, {Blocked, "no kfd"}}, "blocked: no kfd; no web"},
		"order within a kind stays": {[]Cause{{Blocked, "b"}, {Waiting, "w"}, {Blocked, "a"}}, "blocked: b; a; w"},
		"said once":                 {[]Cause{{Blocked, "x"}, {Blocked, "x"}, {Active, "x"}}, "blocked: x"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, text(Of("Ready", tt.causes)))
		})
	}
}

// text is a status as tables have it.
func text(s Status) string { return string(s.Kind) + ": " + s.Message }
