package amdgpu

import (
	"math"
	"slices"

	gm "concourse-ci-machine/internal/gpu/amd/gpumetrics"
)

// activityScale is what the activities in an APU's table (v2_*, v3_0) are counted in:
// hundredths of a percent with old firmware, percent with new (smu_v14_0_0_ppt.c: above
// 0x5d4600). The table does not say which.
type activityScale float64

const (
	unknownScale activityScale = 0
	hundredths   activityScale = 1   // as package gpumetrics reads them
	percents     activityScale = 100 // times what it reads
)

// apuActivities are the fields whose scale it is.
var apuActivities = []gm.Field{gm.AverageGFXActivity, gm.AverageMMActivity, gm.AverageUMCActivity,
	gm.AverageVCNActivity}

// scaleActivities puts the activities of an APU's table right, and takes them out as
// long as their scale is not known; 0 is the same in both. What the firmware counts in
// does not change: it is hundredths for good by a number that a percentage can't be,
// and percent until then where gpu_busy_percent, read a moment before, says nearly the
// same.
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
