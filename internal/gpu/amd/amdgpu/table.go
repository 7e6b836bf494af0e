package amdgpu

import (
	"errors"
	"slices"

	gm "concourse-ci-machine/internal/gpu/amd/gpumetrics"
	"concourse-ci-machine/internal/gpu/sysfile"
)

// tableState is what is known of the device's gpu_metrics.
type tableState struct {
	revision gm.Revision
	scale    activityScale // of an APU's activities
	values   []gm.Value    // memory for the next reading
	unknown  []UnknownTable
}

// tableValues are those that stand behind a file of their own.
type tableValues struct {
	edge, hotspot, gfx  Number // temperatures
	graphics, memory    Number // activities
	power, averagePower Number
	fan                 Number
}

// readTable reads gpu_metrics: first the values that are of the moment, then the
// averages where there was none.
func (r *Reader) readTable() (t tableValues) {
	values, revision, ok := r.decode(r.attrs.table, gm.Decode)
	if !ok {
		return t
	}
	r.hangs.answer()
	if r.table.revision != revision {
		r.table.revision, r.table.scale = revision, unknownScale
	}
	r.s.Table.Revision = &revision
	values = r.scaleActivities(values, revision)
	late := false
	for _, v := range values {
		to := &fields[v.Field]
		if late = late || to.late; !to.late && (v.Field != gm.EnergyAccumulator || r.knowsEnergy(revision)) {
			r.s.take(to, v)
		}
		t.take(v)
	}
	for _, v := range values {
		if to := &fields[v.Field]; late && to.late {
			r.s.take(to, v)
		}
	}
	for i := range r.s.XGMI.Links {
		l := &r.s.XGMI.Links[i]
		r.linked[i] = r.linked[i] || l.Up.Value == 1
		l.WasUp = r.linked[i]
	}
	r.readThrottle(values, revision)
	return t
}

func (t *tableValues) take(v gm.Value) {
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
		t.power = Known(v.Value)
	case gm.AverageSocketPower:
		t.averagePower = Known(v.Value)
	case gm.CurrentFanSpeed:
		t.fan = Known(v.Value)
	}
}

// readPartition reads xcp_metrics: what one partition does. Of the first one,
// and of a GPU that is whole, gpu_metrics may have said it.
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
		if to.late ||
			to.kind == engine &&
				slices.ContainsFunc(engines, func(e Engine) bool { return e.Kind == to.name && e.Partition == own }) ||
			to.kind == limited &&
				slices.ContainsFunc(limits, func(l Limited) bool { return l.Reason == to.name && l.Partition == own }) {
			continue // gpu_metrics said it
		}
		v.Partition = uint8(own)
		r.s.take(to, v)
	}
}

func (r *Reader) decode(f *sysfile.File, decode func([]byte, []gm.Value) (gm.Revision, []gm.Value, error)) ([]gm.Value,
	gm.Revision, bool) {
	b, err := f.Read()
	r.answers.note(f.Base(), err)
	if err != nil {
		r.hangs.asked(err)
		if !sysfile.Absent(err) {
			r.fail(f.Base(), sysfile.ErrnoName(err))
		}
		return nil, gm.Revision{}, false
	}
	revision, values, err := decode(b, r.table.values[:0]) // an empty one is as damaged as one that ends too early
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

// countUnknown keeps the counts that were handed over as they are.
func (r *Reader) countUnknown(file, revision string) {
	all := append([]UnknownTable(nil), r.table.unknown...)
	r.table.unknown = all
	for i := range all {
		if all[i].File == file && all[i].Revision == revision {
			all[i].Readings++
			return
		}
	}
	r.table.unknown = append(all, UnknownTable{file, revision, 1})
}

// knowsEnergy: the header gives the unit for MI200 and MI300 only, and the
// latter are the ones with the tables from v1_4 on.
func (r *Reader) knowsEnergy(revision gm.Revision) bool {
	return r.device.GFX == "gfx90a" || revision.Format == 1 && revision.AtLeast(4)
}
