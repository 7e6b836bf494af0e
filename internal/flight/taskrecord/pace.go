package taskrecord

// Pace is the work of a run. Runs of the same program are compared with it.
type Pace struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_seconds"`
	GPU     float64 `json:"gpu_seconds"` // of busy GPUs, all together
	Joules  float64 `json:"joules,omitempty"`
	Written float64 `json:"written_bytes"` // to disks
}

// MaxEarlier bounds the runs that a run is compared with.
const MaxEarlier = 5

// PaceOf returns the work of a task.
func PaceOf(r *Record) Pace {
	p := Pace{Seconds: r.Ended().Sub(r.Head.Started).Seconds(), CPU: Growth(r.Machine, CPUUsage) / 1e6,
		Written: Growth(r.Machine, DiskWritten)}
	for _, samples := range r.GPUs {
		for i := 1; i < len(samples); i++ {
			busy, _ := samples[i].Get(Busy)
			p.GPU += float64(busy) / 1000 * float64(samples[i].At-samples[i-1].At) / 1000
		}
	}
	if e := EnergyOf(r); e != nil {
		p.Joules = e.Joules
	}
	return p
}

// Growth returns the increase of a sum. A sum that restarted counts from 0.
func Growth(samples []Sample, counter int) (sum float64) {
	last, begun := int64(0), false
	for _, s := range samples {
		v, known := s.Get(counter)
		switch {
		case !known:
			continue
		case begun && v >= last:
			sum += float64(v - last)
		case begun:
			sum += float64(v)
		}
		last, begun = v, true
	}
	return sum
}
