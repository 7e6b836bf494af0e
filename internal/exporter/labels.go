package exporter

import (
	"strconv"

	"concourse-ci-machine/internal/exporter/expo"
)

// labels are what every series of a GPU has.
type labels struct {
	gpu, uuid, pci string
	names          []expo.Family
}

func (l labels) series(m metric, extra ...expo.Label) *expo.Series {
	s := expo.NewSeries(m, l.names[m].Name, append([]expo.Label{
		{Name: "gpu", Value: l.gpu}, {Name: "pci_bus_id", Value: l.pci}, {Name: "uuid", Value: l.uuid}}, extra...)...)
	return &s
}

// dcgm are the labels that NVIDIA's exporter has besides.
func (l labels) dcgm(model string) []expo.Label {
	return []expo.Label{label("UUID", l.uuid), label("modelName", model)}
}

func label(name, value string) expo.Label { return expo.Label{Name: name, Value: value} }

// heads are the series that a GPU has whether it answers or not.
type heads struct {
	labels   labels
	up, info *expo.Series
}

func newHeads(names []expo.Family, d Device, id Identity, driver string) *heads {
	l := labels{strconv.Itoa(d.Index), id.UUID, d.PCI, names}
	return &heads{
		labels: l, up: l.series(deviceUp),
		info: l.series(gpuInfo, label("name", d.Name), label("gfx", d.GFX), label("vbios", id.VBIOS), label("serial", id.Serial),
			label("driver_version", driver), label("partition", strconv.Itoa(d.Partition))),
	}
}
