package driver

import (
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/kube/deviceplugin"
	"github.com/fourdollars/concourse-ci-machine/internal/kube/nodelabels"
)

// maxDevices is the API's limit for a slice with taints.
const maxDevices = 64

// Keys of taints.
const (
	quarantined = Name + "/quarantined" // its value is the cause
	unusable    = Name + "/unusable"    // it cannot compute, or too much of its memory is in use
	leased      = Name + "/leased"      // its value is the kind of the holder
)

// nameOf returns the name of a device in slices: "gpu-0000-03-00-0". It stays over a reboot, so
// that a claim keeps its GPU.
func nameOf(d deviceplugin.Device) string {
	return "gpu-" + strings.NewReplacer(":", "-", ".", "-").Replace(d.Address())
}

// reread is the longest time until a changed attribute is published, for example the version of
// a driver that was loaded again.
const reread = time.Minute

// devices returns the GPUs as slices have them. Each round computes the taints and the faults
// alone, which change a few times a day. The caller holds mu.
func (d *driver) devices() []resourceapi.Device {
	if !reflect.DeepEqual(d.seen.GPUs, d.read) || d.now().Sub(d.readAt) > reread {
		d.untainted = []resourceapi.Device{}
		for i, g := range d.seen.Devices {
			one := resourceapi.Device{Name: nameOf(g), Capacity: capacities(d.root, d.seen.GPUs[i]),
				Attributes: attributes(d.root, d.seen.GPUs[i], g.Style)}
			if slices.Contains(d.shared, i) {
				allowShares(&one, d.replicas)
			}
			d.untainted = append(d.untainted, one)
		}
		d.read, d.readAt = d.seen.GPUs, d.now()
	}
	all := append([]resourceapi.Device{}, d.untainted...)
	for i := range all {
		all[i].Taints = d.taints(i)
		if n := d.seen.Devices[i].RecentFaults; n != nil {
			all[i].Attributes = maps.Clone(all[i].Attributes)
			list(all[i].Attributes).number("recentFaults", int64(*n))
		}
	}
	return all
}

// taints returns the taints of a GPU that claims should not get.
func (d *driver) taints(i int) (all []resourceapi.DeviceTaint) {
	g := d.seen.Devices[i]
	switch {
	case g.Exclusion != "" && g.Cause != "":
		effect := resourceapi.DeviceTaintEffectNoSchedule
		if d.evict {
			effect = resourceapi.DeviceTaintEffectNoExecute
		}
		since := metav1.NewTime(g.Since.Local()).Rfc3339Copy()
		all = append(all, resourceapi.DeviceTaint{Key: quarantined, Value: nodelabels.ToValue(g.Cause), Effect: effect,
			TimeAdded: &since})
	case g.Exclusion != "":
		all = append(all, resourceapi.DeviceTaint{Key: unusable, Effect: resourceapi.DeviceTaintEffectNoSchedule})
	}
	if s := d.otherHolder(i); s != nil {
		since := metav1.NewTime(s.Since.Local()).Rfc3339Copy()
		all = append(all, resourceapi.DeviceTaint{Key: leased, Value: string(s.Kind),
			Effect: resourceapi.DeviceTaintEffectNoSchedule, TimeAdded: &since})
	}
	return all
}

// list collects attributes. A value that is not known has none.
type list map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

func (l list) text(name resourceapi.QualifiedName, value string) {
	if value = value[:min(len(value), resourceapi.DeviceAttributeMaxValueLength)]; value != "" {
		l[name] = resourceapi.DeviceAttribute{StringValue: &value}
	}
}

func (l list) number(name resourceapi.QualifiedName, value int64) {
	l[name] = resourceapi.DeviceAttribute{IntValue: &value}
}

func (l list) add(a deviceattribute.DeviceAttribute, err error) {
	if err == nil {
		l[a.Name] = a.Value
	}
}

// release matches the versions that the API accepts.
var release = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`)

// attributes returns the properties of a GPU that claims can select by. The first block has the
// standard's names, the second those of AMD's driver, the third the project's own.
func attributes(r host.Root, g gpu.GPU, style string) list {
	l := list{}
	sysfs := deviceattribute.WithFSFromRoot(r.Path("/sys"))
	l.add(deviceattribute.GetPCIBusIDAttribute(g.PCI))
	l.add(deviceattribute.GetPCIeRootAttributeByPCIBusID(g.PCI, sysfs))
	l.add(deviceattribute.GetNUMANodeAttributeByPCIBusID(g.PCI, deviceattribute.ScalarAttribute, sysfs))

	whole := style == "" || strings.HasPrefix(style, "spx")
	kind, unique := "amdgpu", g.PCI
	if n := nodelabels.Properties(r, g)["unique_id"]; n > 0 {
		unique = strconv.FormatUint(n, 10)
	}
	if !whole {
		kind = "amdgpu-partition"
		l.text("parentPciAddr", g.PCI)
		l.text("parentDeviceID", unique)
	}
	l.text("type", kind)
	l.text("pciAddr", g.PCI)
	l.text("deviceID", unique)
	l.text("family", nodelabels.Family(g))
	l.text("productName", nodelabels.ToValue(g.Model))
	l.text("partitionProfile", style)
	if n, err := strconv.ParseInt(strings.TrimPrefix(path.Base(g.Nodes.Card), "card"), 10, 64); err == nil {
		l.number("cardIndex", n)
	}
	if n, err := strconv.ParseInt(strings.TrimPrefix(path.Base(g.Nodes.Render), "renderD"), 10, 64); err == nil {
		l.number("renderIndex", n)
	}
	if v := gpu.Attribute(r, "/sys/module/amdgpu/version"); release.MatchString(v) {
		l["driverVersion"] = resourceapi.DeviceAttribute{VersionValue: &v}
	}
	l.text("driverSrcVersion", gpu.Attribute(r, "/sys/module/amdgpu/srcversion"))

	integrated := amdgpu.IsIntegrated(g.GFX)
	l["integrated"] = resourceapi.DeviceAttribute{BoolValue: &integrated}
	l.text("architecture", g.GFX)
	l.text("uniqueID", g.ID())
	l.text("xgmiHive", gpu.Attribute(r, path.Join(g.Sysfs, "xgmi_hive_info/xgmi_hive_id")))
	l.text("vbiosVersion", gpu.Attribute(r, path.Join(g.Sysfs, "vbios_version")))
	l.text("smcFirmware", gpu.Attribute(r, path.Join(g.Sysfs, "fw_version/smc_fw_version")))
	return l
}

// capacities returns the amounts of a GPU, with the names of AMD's driver.
func capacities(r host.Root, g gpu.GPU) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	of := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	add := func(name resourceapi.QualifiedName, n uint64, format resource.Format) {
		if n > 0 {
			of[name] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(int64(n), format)}
		}
	}
	has := nodelabels.Properties(r, g)
	add("memory", nodelabels.Memory(r, g), resource.BinarySI)
	add("simdUnits", has["simd_count"], resource.DecimalSI)
	if per := has["simd_per_cu"]; per > 0 {
		add("computeUnits", has["simd_count"]/per, resource.DecimalSI)
	}
	return of
}
