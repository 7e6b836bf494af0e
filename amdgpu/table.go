package amdgpu

import (
	"errors"
	"math"
	"slices"

	gm "github.com/fourdollars/concourse-ci-machine/amdgpu/gpumetrics"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// tableState holds the state of the device's gpu_metrics.
type tableState struct {
	revision gm.Revision
	scale    activityScale // of an APU's activities
	values   []gm.Value    // memory for the next reading
	unknown  []UnknownTable
}

// tableValues holds the values that also have separate files, which have precedence.
type tableValues struct {
	edge, hotspot, gfx  Number // temperatures
	graphics, memory    Number // activities
	power, averagePower Number
	fan                 Number
}

// readTable reads gpu_metrics: first the current values, then averages for missing ones.
func (r *Reader) readTable() (t tableValues) {
	values, revision, ok := r.decode(r.attrs.table, gm.Decode)
	if !ok {
		return t
	}
	r.answered = true
	if r.table.revision != revision {
		r.table.revision, r.table.scale = revision, unknownScale
	}
	r.s.Table.Revision = &revision
	values = r.scaleActivities(values, revision)
	late := false
	for _, v := range values {
		to := &fields[v.Field]
		if late = late || to.average; !to.average && (v.Field != gm.EnergyAccumulator || r.energyKnown(v, revision)) {
			to.set(&r.s, v)
		}
		t.set(v)
	}
	for _, v := range values {
		if to := &fields[v.Field]; late && to.average {
			to.set(&r.s, v)
		}
	}
	r.keepEnergy()
	for i := range r.s.XGMI.Links {
		l := &r.s.XGMI.Links[i]
		r.linksSeen[i] = r.linksSeen[i] || l.Up.Value == 1
		l.WasUp = r.linksSeen[i]
	}
	r.readThrottle(values, revision)
	return t
}

// keepEnergy keeps a counter from falling by a little, as firmware may answer. A counter that
// was reset is near 0.
func (r *Reader) keepEnergy() {
	e := &r.s.Power.Energy
	if !e.Known {
		return
	}
	if e.Value < r.energy && e.Value > r.energy/2 {
		e.Value = r.energy
	}
	r.energy = e.Value
}

func (t *tableValues) set(v gm.Value) {
	if v.Index > 0 || v.Partition > 0 {
		return
	}
	switch v.Field {
	case gm.TemperatureEdge:
		t.edge = Known(v.Value)
	case gm.TemperatureHotspot:
		t.hotspot = Known(v.Value)
	case gm.TemperatureGFX:
		t.gfx = Known(v.Value)
	case gm.AverageGFXActivity:
		t.graphics = Known(v.Value)
	case gm.AverageUMCActivity:
		t.memory = Known(v.Value)
	case gm.CurrSocketPower:
		t.power = Number{Value: v.Value, Known: v.Value > 0} // a second die has 0
	case gm.AverageSocketPower:
		t.averagePower = Number{Value: v.Value, Known: v.Value > 0}
	case gm.CurrentFanSpeed:
		t.fan = Known(v.Value)
	}
}

// readPartition reads xcp_metrics, the values of one partition. gpu_metrics may already
// have the values of the first partition, or of a whole GPU.
func (r *Reader) readPartition() {
	if r.attrs.partition == nil {
		return
	}
	values, _, ok := r.decode(r.attrs.partition, gm.DecodePartition)
	if !ok {
		return
	}
	own, engines, limits := r.device.Partition, r.s.Activity.Engines, r.s.Throttling.Limited
	for _, v := range values {
		to := &fields[v.Field]
		if to.average ||
			to.kind == engine &&
				slices.ContainsFunc(engines, func(e Engine) bool {
					return e.Kind == to.name &&
						e.Partition == own
				}) ||
			to.kind == limited &&
				slices.ContainsFunc(limits, func(l Limited) bool {
					return l.Reason == to.name &&
						l.Partition == own
				}) {
			continue // gpu_metrics had it
		}
		v.Partition = uint8(own)
		to.set(&r.s, v)
	}
}

func (r *Reader) decode(f *sysfile.File, decode func([]byte, []gm.Value) (gm.Revision, []gm.Value, error)) ([]gm.Value,
	gm.Revision, bool) {
	b, err := f.Read()
	r.answers.note(f.Base(), err)
	if err != nil {
		r.noteError(err)
		if !sysfile.Absent(err) {
			r.fail(f.Base(), sysfile.ErrnoName(err))
		}
		return nil, gm.Revision{}, false
	}
	revision, values, err := decode(b, r.table.values[:0]) // an empty table is as damaged as a truncated one
	r.table.values = values
	switch {
	case errors.Is(err, gm.ErrUnknown):
		r.countUnknown(f.Base(), revision.String())
		return nil, revision, false
	case err != nil:
		r.fail(f.Base(), "damaged")
		return nil, revision, false
	}
	return values, revision, true
}

// countUnknown copies the counts, because readers may hold the previous ones.
func (r *Reader) countUnknown(file, revision string) {
	all := append([]UnknownTable(nil), r.table.unknown...)
	r.table.unknown = all
	for i := range all {
		if all[i].File == file && all[i].Revision == revision {
			all[i].Readings++
			return
		}
	}
	r.table.unknown = append(all, UnknownTable{File: file, Revision: revision, Readings: 1})
}

// energyKnown reports whether the energy counter has a known unit and is not the 0 of a
// second die. The kernel's header gives the unit only for MI200 and MI300; MI300 has the
// tables from v1_4 on.
func (r *Reader) energyKnown(v gm.Value, revision gm.Revision) bool {
	return v.Raw != 0 && (r.device.GFX == "gfx90a" || revision.Format == 1 && revision.AtLeast(4))
}

// activityScale is the unit of the activities in an APU's table (v2_*, v3_0): hundredths of
// a percent with old firmware, percent with new (smu_v14_0_0_ppt.c: above 0x5d4600). The
// table does not contain the unit.
type activityScale float64

const (
	unknownScale activityScale = 0
	hundredths   activityScale = 1   // as package gpumetrics reads them
	percents     activityScale = 100 // times the value of package gpumetrics
)

// apuActivities lists the fields with this scale.
var apuActivities = []gm.Field{gm.AverageGFXActivity, gm.AverageMMActivity, gm.AverageUMCActivity,
	gm.AverageVCNActivity}

// scaleActivities corrects the activities of an APU's table, and removes them until their
// scale is known; 0 is the same in both. The firmware's scale never changes. It is
// hundredths after a value above 100, which is not a percentage. It is percent if
// gpu_busy_percent, read a moment before, has nearly the same value.
func (r *Reader) scaleActivities(values []gm.Value, revision gm.Revision) []gm.Value {
	if revision.Format != 2 && revision.Format != 3 {
		return values
	}
	isActivity := func(v gm.Value) bool { return slices.Contains(apuActivities, v.Field) && v.Raw != 0 }
	busy := r.s.Activity.Graphics
	for _, v := range values {
		switch {
		case !isActivity(v):
		case v.Raw > 100:
			r.table.scale = hundredths
		case v.Field == gm.AverageGFXActivity && r.table.scale == unknownScale && busy.Value >= .05 &&
			math.Abs(float64(v.Raw)/100-busy.Value) <= .02:
			r.table.scale = percents
		}
	}
	for i, v := range values {
		if isActivity(v) && r.table.scale == percents {
			values[i].Value = min(1, v.Value*float64(percents))
		}
	}
	return slices.DeleteFunc(values, func(v gm.Value) bool { return isActivity(v) && r.table.scale == unknownScale })
}
