package exporter

import (
	"errors"
	"strconv"

	"concourse-ci-machine/internal/exporter/expo"
	"concourse-ci-machine/internal/exporter/gpumetrics"
	"concourse-ci-machine/internal/exporter/sysfile"
)

// tableState is what is known of the device's gpu_metrics.
type tableState struct {
	revision gpumetrics.Revision
	info     *expo.Series
	scale    activityScale // of an APU's activities
	unknown  float64       // readings with a revision that has no layout
	other    *expo.Series
}

// memo remembers which series the n-th value of a table is: a driver writes the
// same table each time.
type memo struct {
	field     gpumetrics.Field
	partition uint8
	index     uint16
	slot      *slot // nil: the value is not shown
	late      bool  // only where no other value had the series
	times     float64
}

// readTable reads gpu_metrics. The values are valid until the next table.
func (c *card) readTable() []gpumetrics.Value {
	c.throttle.share, c.throttle.status = nil, nil // of the last scrape, whose table may be gone
	values, revision, ok := c.decode(c.attrs.table, gpumetrics.Decode)
	if c.table.other != nil {
		c.sample.add(c.table.other, c.table.unknown)
	}
	if !ok {
		return nil
	}
	c.hangs.answered++
	if c.table.info == nil || c.table.revision != revision {
		c.table.revision, c.table.scale = revision, unknownScale
		c.table.info = c.heads.labels.series(tableInfo, label("revision", revision.String()))
		c.memo = nil
	}
	c.sample.add(c.table.info, 1)
	values = c.scaleActivities(values, revision)
	c.show(values)
	c.readThrottle(values, revision)
	return values
}

// readPartition reads xcp_metrics: what one partition does. Of the first one,
// and of a GPU that is whole, gpu_metrics may have said it.
func (c *card) readPartition() {
	if c.attrs.partition == nil {
		return
	}
	values, _, ok := c.decode(c.attrs.partition, gpumetrics.DecodePartition)
	if !ok {
		return
	}
	for _, v := range values {
		v.Partition = uint8(c.device.Partition)
		if m := c.newMemo(v); m.slot != nil && !m.late {
			c.set(m.slot, v.Value*m.times)
		}
	}
}

func (c *card) decode(f *sysfile.File, decode func([]byte, []gpumetrics.Value) (gpumetrics.Revision, []gpumetrics.Value, error)) ([]gpumetrics.Value, gpumetrics.Revision, bool) {
	b, err := f.Read()
	if err != nil {
		c.hangs.asked(err)
		if !sysfile.Absent(err) {
			c.fail(f.Base(), sysfile.ErrnoName(err))
		}
		return nil, gpumetrics.Revision{}, false
	}
	if len(b) == 0 { // as damaged as one that ends too early
		c.fail(f.Base(), "damaged")
		return nil, gpumetrics.Revision{}, false
	}
	revision, values, err := decode(b, c.values[:0])
	c.values = values
	switch {
	case errors.Is(err, gpumetrics.ErrUnknown):
		c.table.unknown++
		c.table.other = c.heads.labels.series(unknownTables, label("file", f.Base()), label("revision", revision.String()))
		return nil, revision, false
	case err != nil:
		c.fail(f.Base(), "damaged")
		return nil, revision, false
	}
	return values, revision, true
}

// show adds the values: first those that are of the moment, then the averages
// where there was none.
func (c *card) show(values []gpumetrics.Value) {
	for len(c.memo) < len(values) {
		c.memo = append(c.memo, c.newMemo(values[len(c.memo)]))
	}
	late := false
	for i, v := range values {
		m := &c.memo[i]
		if m.field != v.Field || m.index != v.Index || m.partition != v.Partition {
			*m = c.newMemo(v)
		}
		switch {
		case m.slot == nil:
		case m.late:
			late = true
		default:
			c.set(m.slot, v.Value*m.times)
		}
	}
	for i := range values {
		if m := &c.memo[i]; late && m.late && m.slot != nil {
			c.set(m.slot, values[i].Value*m.times)
		}
	}
}

// newMemo finds the series of a value.
func (c *card) newMemo(v gpumetrics.Value) memo {
	m := memo{field: v.Field, partition: v.Partition, index: v.Index, times: 1}
	t, ok := shown[v.Field]
	if !ok || t.metric == energyJoules && !c.knowsEnergy() {
		return m
	}
	m.late = t.late
	var extra []expo.Label
	if t.name != "" {
		extra = append(extra, label(t.name, t.value))
	}
	n := v.Index + t.from
	switch t.array {
	case numbered:
		extra[0].Value += strconv.Itoa(int(n))
	case instances:
		extra = append(extra, index("instance", int(n)))
	case links:
		extra = append(extra, index("link", int(n)))
	case byPartition:
		extra = append(extra, index("instance", int(n)), index("partition", int(v.Partition)))
	}
	key := slotKey{metric: t.metric}
	if len(extra) > 0 {
		key.a = extra[0].Value
	}
	if len(extra) > 1 {
		key.b = extra[1].Value
	}
	if len(extra) > 2 {
		key.p = uint16(v.Partition)
	}
	m.slot = c.slot(key, extra)
	return m
}

// knowsEnergy: the header gives the unit for MI200 and MI300 only, and the
// latter are the ones with the tables from v1_4 on.
func (c *card) knowsEnergy() bool {
	r := c.table.revision
	return c.device.GFX == "gfx90a" || r.Format == 1 && r.AtLeast(4)
}
