package page

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

func texts(all []total) (out []string) {
	for _, t := range all {
		out = append(out, t.Text)
	}
	return out
}

// three are GPUs of which tasks can get one: another is leased, and the third quarantined.
func three() [][]api.Status {
	all := [][]api.Status{
		{{PCI: "a", Power: new(100.), PowerCap: new(300.), Activity: new(.2)}},
		{{PCI: "b", Power: new(50.), PowerCap: new(300.), Activity: new(.8)}},
		{{PCI: "c"}},
	}
	for i := range all {
		all[i][0].Health.State, all[i][0].Lease = health.Healthy, &pool.Lease{Held: i == 1}
		all[i][0].Service = &pool.Service{State: quarantine.InService}
	}
	all[2][0].Service = &pool.Service{State: quarantine.Quarantined, Since: time.Now()}
	return all
}

func TestSummaryCountsWhatIsKnown(t *testing.T) {
	require.Equal(t, []string{"3 GPUs", "✓ 3 healthy", "1 free", "1 leased", "⊘ 1 quarantined",
		"total power 150 W of 600 W (2 of 3 GPUs)", "mean load 50 % (2 of 3 GPUs)"}, texts(totalsOf(three(), "")))
	unknown := [][]api.Status{{{}}, {{}}}
	require.Equal(t, []string{"2 GPUs", "? 2 unknown"}, texts(totalsOf(unknown, "")), "unknown is not 0")
	require.Equal(t, []string{"No GPU"}, texts(totalsOf(nil, "")))
}

func TestFilterShowsTheGPUsOfOneNumber(t *testing.T) {
	for show, want := range map[string]string{"free": "a", "leased": "b", "quarantined": "c", "healthy": "abc",
		"critical": "", "": "abc", "no-such-filter": "abc"} {
		got := ""
		shown, current := filter(three(), show)
		for _, g := range shown {
			got += g[0].PCI
		}
		require.Equal(t, want, got, show)
		for _, total := range totalsOf(three(), current) {
			require.Equal(t, total.Link && total.Show == current, total.Current, "%s: %s", show, total.Text)
		}
	}
	r := api.Report{}
	for _, g := range three() {
		r.GPUs = append(r.GPUs, g[0])
	}
	require.Equal(t, "No GPU is critical now.", newView(r, Links{}, "critical").None)
	require.Equal(t, few, newView(r, Links{}, "free").Layout, "a filter does not change the layout")
}

func TestLayoutFollowsTheNumberOfGPUs(t *testing.T) {
	for want, all := range map[layout][][2]int{one: {{0, 0}, {1, 1}, {1, 8}}, few: {{2, 2}, {4, 4}, {2, 8}}, many: {{5, 5}, {8, 8}},
		dense: {{9, 9}, {64, 64}, {8, 64}, {2, 9}}} {
		for _, n := range all {
			require.Equal(t, want, layoutOf(n[0], n[1]), n)
		}
	}
}

// A GPU that tasks do not get has no healthy edge.
func TestQuarantinedCardHasNoHealthyEdge(t *testing.T) {
	s := three()[2]
	require.Equal(t, "quarantined", newCard(api.Report{}, s, Links{}).Edge())
	s[0].Service.State = quarantine.OnProbation
	require.Equal(t, "on_probation", newCard(api.Report{}, s, Links{}).Edge())
	s[0].Health.State = health.Critical
	require.Equal(t, "critical", newCard(api.Report{}, s, Links{}).Edge(), "a fault is worse")
	require.Equal(t, "healthy", newCard(api.Report{}, three()[0], Links{}).Edge())
}

func TestSummaryOfOneGPUHasNoLinks(t *testing.T) {
	divided := three()[0][0]
	divided.Partitions, divided.SocketActivity, divided.PowerCap = 2, new(.4), nil
	all := [][]api.Status{{divided, divided}}
	got := totalsOf(all, "")
	require.Equal(t, []string{"2 partitions of 1 GPU", "✓ 1 healthy", "2 free", "0 leased", "⊘ 0 quarantined", "total power 100 W",
		"mean load 40 %"}, texts(got))
	for _, one := range got {
		require.False(t, one.Link || one.Current, one.Text)
	}
	two := three()[:2]
	two[1][0].Service.State = quarantine.OnProbation
	got = totalsOf(two, "")
	require.Equal(t, []string{"2 GPUs", "✓ 2 healthy", "1 free", "1 leased", "⊘ 0 quarantined", "↻ 1 on probation",
		"total power 150 W of 600 W", "mean load 50 %"}, texts(got))
	var links []bool
	for _, one := range got {
		links = append(links, one.Link)
	}
	require.Equal(t, []bool{true, true, true, true, false, true, false, false}, links, "a link needs a GPU to show")
}

// The worst come first, and GPUs that no task gets before others of the same health.
func TestPageBeginsWithTheWorstGPU(t *testing.T) {
	r := api.Report{}
	for _, g := range three() {
		r.GPUs = append(r.GPUs, g[0])
	}
	r.GPUs[1].Health.State = health.Critical
	v := newView(r, Links{}, "")
	require.Equal(t, []string{"b", "c", "a"}, []string{v.GPUs[0].PCI, v.GPUs[1].PCI, v.GPUs[2].PCI})
	require.Regexp(t, `^\(1 critical\) `, v.Title)
	require.Empty(t, v.None)
	require.False(t, v.Unfolded() || v.Whole() || v.Dense())
	two := newView(api.Report{GPUs: r.GPUs[:2]}, Links{}, "")
	require.True(t, two.Unfolded())
	require.NotContains(t, newView(api.Report{GPUs: r.GPUs[:1]}, Links{}, "").Title, "critical")
	require.Equal(t, "The exporter finds no GPU that it can read.", newView(api.Report{}, Links{}, "").None)
}
