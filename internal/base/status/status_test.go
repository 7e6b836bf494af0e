package status

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestStatusNamesTheWorstCausesAndTheirCommands(t *testing.T) {
	const end = "...; more: juju run gpu/0 check-status"
	long := Block("%s", strings.Repeat("x", 70))
	for name, tt := range map[string]struct {
		causes []Cause
		want   string
	}{
		"none":                      {nil, "active: Ready (v1)"},
		"warnings follow the text":  {[]Cause{Warn("no toolkit"), Warn("no metrics")}, "active: Ready (v1); no toolkit; no metrics"},
		"waiting hides ready":       {[]Cause{Warn("no toolkit"), Wait("no web")}, "waiting: no web; no toolkit"},
		"blocked comes first":       {[]Cause{Wait("no web"), Block("no kfd")}, "blocked: no kfd; no web"},
		"order within a kind stays": {[]Cause{Block("b"), Block("a")}, "blocked: b; a"},
		"once":                      {[]Cause{Block("x"), Block("x"), Warn("x")}, "blocked: x"},
		"with its command":          {[]Cause{Block("no kfd").Run("lxc restart c1")}, "blocked: no kfd — run: lxc restart c1"},
		"at most two": {[]Cause{Block("b"), Wait("w"), Block("a"), Warn("c")},
			"blocked: b; a; and 2 more: juju run gpu/0 check-status"},
		"a detail is left out": {[]Cause{Block("b").Explain("why")}, "blocked: b; more: juju run gpu/0 check-status"},
		"the first command is worth more than the second cause": {[]Cause{Block("b").Run("lxc restart c1"), long.Run(long.Text)},
			"blocked: b — run: lxc restart c1; and 1 more: juju run gpu/0 check-status"},
		"a command that does not fit": {[]Cause{long.Run(strings.Repeat("y", 60))},
			"blocked: " + long.Text + "; more: juju run gpu/0 check-status"},
		"a text that does not fit": {[]Cause{long, Warn("w"), Block("%s", strings.Repeat("y", 90))},
			"blocked: " + long.Text + "; and 2 more: juju run gpu/0 check-status"},
		"a short ready leaves space for a warning": {[]Cause{Warn("%s", long.Text+"12345").Explain("why")},
			"active: Ready; " + long.Text + "12345; more: juju run gpu/0 check-status"},
		"a warning is cut after a short ready": {[]Cause{Warn("%s", long.Text+long.Text)},
			"active: Ready (v1); " + strings.Repeat("x", Limit-len("Ready (v1); "+end)) + end},
		"a reason is cut": {[]Cause{Block("%s", strings.Repeat("ö", 121))},
			"blocked: " + strings.Repeat("ö", Limit-len(end)) + end},
	} {
		t.Run(name, func(t *testing.T) {
			s := Of("juju run gpu/0 check-status", []string{"Ready (v1)", "Ready"}, tt.causes)
			require.Equal(t, tt.want, string(s.Kind)+": "+s.Message)
		})
	}
}

func FuzzStatusFits(f *testing.F) {
	f.Add("a text", "a detail", "a command", "Worker ready (v8.2.5)", 3)
	f.Add(strings.Repeat("ö", 200), "", "", "", 1)
	f.Fuzz(func(t *testing.T, text, detail, command, ready string, n int) {
		var causes []Cause
		for i := range min(max(n, 0), 5) {
			c := Cause{Kind: []Kind{Active, Waiting, Blocked}[i%3], Text: text[min(i, len(text)):], Detail: detail}
			causes = append(causes, c.Run(command))
		}
		message := Of("juju run concourse-ci-machine/12 check-status", []string{ready[:min(len(ready), Limit)], "ready"}, causes).Message
		require.LessOrEqual(t, utf8.RuneCountInString(message), Limit, message)
		if detail != "" && len(causes) > 0 {
			require.True(t, strings.HasSuffix(message, "juju run concourse-ci-machine/12 check-status"), message)
		}
	})
}
