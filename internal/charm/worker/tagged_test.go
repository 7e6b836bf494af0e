package worker

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/pool/quarantine"
	"concourse-ci-machine/internal/testutil/hosttest"
)

func TestTagsFollowWhatLastsAndWhatLeavesNone(t *testing.T) {
	const a, b, c, other = "0000:03:00.0", "0000:43:00.0", "0000:83:00.0", "0000:c3:00.0"
	chosen := []gpu.GPU{{PCI: a, GFX: "gfx90a"}, {PCI: b, GFX: "gfx90a"}, {PCI: c, GFX: "gfx90a"}, {PCI: other, GFX: "gfx942"}}
	long, brief := 10*time.Minute, 9*time.Minute
	for name, one := range map[string]struct {
		before string                   // what the tags left out
		ago    time.Duration            // since when
		out    map[string]time.Duration // for how long each is withheld
		want   string
	}{
		"nothing ever was":                     {"", 0, nil, ""},
		"a short sickness":                     {"", 0, map[string]time.Duration{b: brief}, ""},
		"one that lasts":                       {"", 0, map[string]time.Duration{b: long}, b},
		"one that lasts, and a short one":      {"", 0, map[string]time.Duration{a: brief, b: long}, b},
		"the last of an architecture, at once": {"", 0, map[string]time.Duration{other: 0}, other},
		"that, and a short sickness":           {"", 0, map[string]time.Duration{b: 0, other: 0}, other},
		"none left, at once":                   {"", 0, map[string]time.Duration{a: 0, b: 0, c: 0, other: 0}, a + " " + b + " " + c + " " + other},
		"back":                                 {b, tagsTime, nil, ""},
		"back, and right after a change":       {b, tagsTime - 1, nil, b},
		"lasts, and right after a change":      {b, tagsTime - 1, map[string]time.Duration{b: long, c: long}, b},
		"sick again before the tags had it":    {b, time.Hour, map[string]time.Duration{b: 0}, b},
		"a clock that was set back":            {b, -time.Hour, map[string]time.Duration{a: -time.Hour}, a},
		"withheld while the hook looks":        {"", 0, map[string]time.Duration{b: -time.Second}, ""},
		"one that tasks do not get any more":   {"0000:63:00.0", time.Hour, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var before taggedGPUs
			if one.ago != 0 {
				before = taggedGPUs{strings.Fields(one.before), hosttest.Now.Add(-one.ago)}
			}
			var withheld []quarantine.GPU
			for name, since := range one.out {
				at := hosttest.Now.Add(-since)
				withheld = append(withheld, quarantine.GPU{Name: name, OutSince: &at})
			}
			after := before.follow(chosen, withheld, hosttest.Now)
			require.Equal(t, one.want, strings.Join(after.Out, " "))
			if one.want == one.before {
				require.Equal(t, before, after, "nothing is new, so the date stays")
			} else {
				require.Equal(t, hosttest.Now, after.At)
			}
			require.Equal(t, after, after.follow(chosen, withheld, hosttest.Now), "a second look changes nothing")
		})
	}
}

// A GPU that falls sick once and is well again within minutes never changes the tags.
func TestFirstProofIsOverBeforeTheTagsFollow(t *testing.T) {
	o := Observed{}
	o.Now = hosttest.Now
	withheld(&o, 1)
	l := quarantine.Look{At: o.Now, Policy: quarantine.Auto}
	for i, name := range slotsOf {
		l.GPUs = append(l.GPUs, quarantine.Reading{Name: name, Index: i, Up: true})
	}
	for o.Service.Find(slotsOf[1]).State != quarantine.InService {
		l.At = l.At.Add(6 * time.Second)
		o.Service = quarantine.Decide(o.Service, l)
		require.Less(t, l.At.Sub(hosttest.Now), shortTime-4*time.Minute, "4 minutes for the sickness")
	}
}
