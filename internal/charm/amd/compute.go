package amd

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/amd/chips"
)

// describeGPUs adds the name, the architecture and NotInKFD, as list-gpus shows them. The table
// of chips has the architecture of a GPU without a driver.
func describeGPUs(r host.Root, gpus []gpu.GPU) error {
	inv, err := gpu.Discover(r)
	if err != nil {
		return err
	}
	for i := range gpus {
		g := &gpus[i]
		unusable := slices.IndexFunc(inv.Unusable, func(l gpu.GPU) bool { return l.PCI == g.PCI })
		if unusable >= 0 {
			g.Model, g.NotInKFD = inv.Unusable[unusable].Model, inv.Unusable[unusable].Reason == gpu.NoCompute
		}
		if found := inv.Find(g.PCI); found != nil {
			g.Model, g.GFX, g.NotInKFD = found.Model, found.GFX, found.NotInKFD
		}
		g.GFX = chips.Find(g.DeviceID, g.GFX).GFX
		g.Model = cmp.Or(g.Model, "AMD GPU")
	}
	return nil
}

func family(g gpu.GPU) chips.Family { return chips.Find(g.DeviceID, g.GFX).Family }

// withoutCompute changes the decision on a running driver if some of its GPUs cannot compute.
// A GPU that no ROCm supports is no problem beside one that computes.
func withoutCompute(d Decision, f DriverFacts, w Wanted, bound []gpu.GPU) Decision {
	var computing, refused, old []gpu.GPU
	for _, g := range bound {
		switch {
		case chips.WithoutROCm(g.GFX), g.NotInKFD && family(g) == chips.Unknown: // the table lacks GCN 1
			old = append(old, g)
		case g.NotInKFD:
			refused = append(refused, g)
		default:
			computing = append(computing, g)
		}
	}
	has, _ := f.Package(driverPackage)
	changes := d.Driver && has.Version != d.Release.Package(f.Series)
	if d.State != StateSupported || changes || len(computing) == len(bound) {
		return d
	}
	var reasons, remedies []string
	if len(refused) > 0 {
		reasons = append(reasons, "KFD refuses "+describe(refused))
		remedies = append(remedies, "see why: sudo dmesg | grep kfd")
	}
	if len(old) > 0 {
		reasons = append(reasons, "no ROCm of the table supports "+describe(old))
	}
	serves := "serves " + describe(computing) + ", and "
	if len(computing) == 0 {
		serves = "runs, but no GPU computes: "
		remedies = append(remedies, "list the releases of ROCm: "+w.Commands.RunAction("rocm-matrix"),
			"or use no GPU here: "+w.Commands.SetOption("compute-runtime=none"))
	}
	if len(remedies) > 0 {
		d.State = StateUnsupported
	}
	d.Reason = f.driverName() + " " + serves + strings.Join(reasons, ", and ")
	d.Remedies = append(remedies, d.Remedies...)
	return d
}
