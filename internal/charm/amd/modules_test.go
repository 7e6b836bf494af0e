package amd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// B13: udev hears of its rules when they changed, and at no other time.
func TestUdevReloadsOnlyAfterAChange(t *testing.T) {
	g := newRig(t)
	rules := func() plan.Plan {
		r, err := udevRules()
		require.NoError(t, err)
		return g.diff([]plan.Resource{r})
	}
	apply := func() {
		g.r.Ran = nil
		p := rules()
		require.Len(t, p, 2)
		g.apply(p)
		require.Equal(t, []string{"udevadm control --reload-rules",
			"udevadm trigger --action=change --subsystem-match=drm --subsystem-match=kfd", "udevadm settle --timeout=30"}, g.r.Ran)
		require.Empty(t, rules())
		text, err := g.h.ReadText(UdevRules)
		require.NoError(t, err)
		require.Equal(t, 2, strings.Count(text, `GROUP="render", MODE="0660"`))
	}
	apply()
	hosttest.Put(t, g.h.Root, UdevRules, mark) // of an older charm
	apply()
	g = newRig(t)
	g.r.Fail("udevadm trigger", 1, "no")
	require.NotEmpty(t, g.apply(rules()), "a failure is tolerated")
	require.Len(t, rules(), 1, "and made good")
}

// A file that an operator wrote under the same name stays, for example with another mode.
func TestRulesOfTheOperatorStay(t *testing.T) {
	g := newRig(t)
	own := "KERNEL==\"kfd\", MODE=\"0666\"\n"
	hosttest.Put(t, g.h.Root, UdevRules, own)
	p, want := g.plan()
	require.NotContains(t, printed(t, p), UdevRules)
	require.Empty(t, want.Remarks)
	g.apply(p)
	require.NotContains(t, printed(t, g.diff(Uninstall(g.f, g.e, "gone"))), UdevRules)
	text, err := g.h.ReadFile(UdevRules)
	require.NoError(t, err)
	require.Equal(t, own, string(text))
}

// B10: the module is loaded if there is one for a GPU that waits for it, and nowhere more.
func TestModuleIsLoadedIfRequired(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(g *rig)
		loads, atBoot bool
	}{
		"on disk, not loaded": {func(*rig) {}, true, true},
		"loaded":              {func(g *rig) { hosttest.Put(g.t, g.h.Root, moduleDir+"/version", "") }, false, true},
		"not on disk":         {func(g *rig) { g.f.Module.Selected = "" }, false, false},
		"blacklisted":         {func(g *rig) { g.f.Blacklists = []Blacklist{{File: "/etc/modprobe.d/a.conf", Line: 1}} }, false, false},
		"given to a VM":       {func(g *rig) { g.f.GPUs[0].Driver = "vfio-pci" }, false, false},
		"no GPU":              {func(g *rig) { g.f.GPUs = nil }, false, false},
		"in a container":      {func(g *rig) { g.f.Kind = LXD }, false, false},
	} {
		g := newRig(t)
		g.d, g.f.Module.Selected = Decision{}, "/lib/modules/"+rigKernel+"/kernel/amdgpu.ko"
		c.change(g)
		p, _ := g.plan()
		text := printed(t, p)
		require.Equal(t, c.loads, strings.Contains(text, "load the kernel module amdgpu (not loaded)"), name)
		require.Equal(t, c.atBoot, strings.Contains(text, "write "+loadFile), name)
	}
}
