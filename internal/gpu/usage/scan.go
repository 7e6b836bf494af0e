package usage

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/amd/chips"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/deadline"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
)

// descriptor identifies a DRM file of a process.
type descriptor struct {
	pid   int
	place place
	fd    string
	node  string
}

// reading holds the fdinfo of one descriptor.
type reading struct {
	descriptor
	info info
}

// Scan scans all processes once, and counts for the GPUs with users that can be found. Without
// such a GPU it scans nothing. It waits for drivers until the context is done. A GPU with a driver
// that does not answer has no rows, and is queried again after the answer.
func (s *Scanner) Scan(ctx context.Context, gpus []gpu.Slot) {
	s.scanning.Lock()
	defer s.scanning.Unlock()
	n := findNodes(s.root, gpus)
	if len(n.devices) == 0 {
		return
	}
	r := &Result{At: s.now(), Devices: []Used{}}
	began := time.Now()
	users := s.walk.run(&r.Left)
	own := containersOf(readText(s.root, "/proc/self/cgroup"))
	byGPU := s.descriptors(users, n, own, &r.Left)
	r.Took = time.Since(began)

	answers := readEach(ctx, s, byGPU, func(pci string) string { return pci }, readInfos)
	uses, spaces := byDevice(answers, n)
	// KFD's files are read separately, because the time of copies is in the memory of the
	// process itself, which may answer slowly.
	kfd := s.join(listKFD(s.root, n.kfdIDs()), spaces, own, &r.Left)
	for d, more := range readEach(ctx, s, kfd, func(d gpu.Slot) string { return "kfd " + d.Address() }, readKFD) {
		uses[d] = append(uses[d], more...)
	}
	ledgers := map[string]*ledger{}
	for _, d := range n.devices {
		l := s.ledgers[d.Address()]
		if l == nil {
			l = newLedger()
		}
		ledgers[d.Address()] = l
		if _, answered := answers[d.PCI]; answered || len(byGPU[d.PCI]) == 0 && !s.readings.Outstanding(d.PCI) {
			here := slices.DeleteFunc(slices.Clone(uses[d]), func(u use) bool { return u.outside })
			rows := l.update(r.At, s.walk.turn, here, s.options.Containers,
				func(p place) bool { return p.removed(s.root) })
			s.addPeaks(rows, l, d, n.devices)
			r.Devices = append(r.Devices, Used{d.Stored(), rows, processesOf(s.root, uses[d], chips.Integrated(d.GFX))})
		}
	}
	s.ledgers = ledgers
	s.last.Store(r)
}

// byDevice groups the clients by device, and returns the owners of memory spaces.
func byDevice(answers map[string][]reading, n nodes) (map[gpu.Slot][]use, map[gpu.Slot]map[uint64]owner) {
	uses, spaces := map[gpu.Slot][]use{}, map[gpu.Slot]map[uint64]owner{}
	for _, readings := range answers {
		for _, a := range readings {
			d, ok := n.device(a.info, a.node)
			if !ok {
				continue
			}
			uses[d] = append(uses[d], use{client: clientKey{id: a.info.client}, place: a.place, pid: a.pid,
				screen: strings.HasPrefix(a.node, "card"), // which display servers have open
				memory: a.info.memory, engines: a.info.engines, units: -1})
			if spaces[d] == nil {
				spaces[d] = map[uint64]owner{}
			}
			if o, known := spaces[d][a.info.pasid]; !known || less(a.place, a.pid, o.place, o.pid) {
				spaces[d][a.info.pasid] = owner{a.pid, a.place}
			}
		}
	}
	return uses, spaces
}

// descriptors groups the open descriptors by the GPU's PCI address, "" if the name does not
// identify the GPU.
func (s *Scanner) descriptors(users []user, n nodes, own []string, left *LeftOut) map[string][]descriptor {
	out := map[string][]descriptor{}
	for _, u := range users {
		var where *place
		for _, f := range u.fds {
			d, ask := n.find(f.node)
			switch {
			case !ask:
				continue
			case len(out[d.PCI]) == s.options.Clients:
				left.Limit++
				continue
			case where == nil:
				text, _ := s.cgroup(u.pid)
				where = new(placeOf(text, own))
			}
			out[d.PCI] = append(out[d.PCI], descriptor{u.pid, *where, f.fd, f.node})
		}
	}
	return out
}

func (s *Scanner) cgroup(pid int) (string, bool) {
	b, err := sysfile.ReadOnce(s.root.Path(path.Join("/proc", strconv.Itoa(pid), "cgroup")))
	return string(b), err == nil
}

// readEach reads the files of all GPUs in parallel. A GPU without an answer in time is
// missing in the result.
func readEach[K comparable, V, T any](ctx context.Context, s *Scanner, all map[K]V, name func(K) string,
	read func(host.Root, V) T) map[K]T {
	open := map[K]*deadline.Work[any]{}
	for k, v := range all {
		// Of work that has not ended, the result would be too old.
		if w, run := s.readings.Join(name(k), func() any { return read(s.root, v) }); run != nil {
			open[k] = w
			go run()
		}
	}
	out := map[K]T{}
	for k, w := range open {
		if r, ok := deadline.Wait(w, ctx.Done()); ok {
			out[k] = r.(T)
		}
	}
	return out
}

// readInfos reads the fdinfo of each descriptor. It skips closed and unreadable ones, and
// clients of other drivers.
func readInfos(root host.Root, all []descriptor) []reading {
	out := []reading{}
	page := make([]byte, maxInfo)
	for _, d := range all {
		if strings.HasPrefix(d.node, nvidiaNode) { // one client for each process
			out = append(out, reading{d, info{client: uint64(d.pid), memory: [numKinds]int64{-1, -1, -1, -1}}})
			continue
		}
		n, err := sysfile.ReadInto(root.Path(path.Join("/proc", strconv.Itoa(d.pid), "fdinfo", d.fd)), page)
		if err != nil {
			continue
		}
		if in := parseInfo(string(page[:n])); in.driver == "amdgpu" && in.known {
			out = append(out, reading{d, in})
		}
	}
	return out
}
