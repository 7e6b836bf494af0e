package exporter

import "concourse-ci-machine/internal/exporter/expo"

// Sample is what one device said in one scrape.
type Sample struct {
	Identity Identity
	Values   []expo.Sample
	Failures []Failure
	Alive    bool // it gave values, or there was a reason not to ask for any
	heads    *heads
	vitals   vitals
	memory   *[]expo.Sample // that Values is in
}

func (s *Sample) add(series *expo.Series, v float64) {
	s.Values = append(s.Values, expo.Sample{Series: series, Value: v})
}

// vitals are the few values that the health judgement and the API need by
// themselves.
type vitals struct {
	Suspended   bool
	Temperature reading
	Power       optional // W
	PowerCap    optional // W
	Used, Total optional // bytes of video memory
	Activity    optional // 0 to 1
	Memory      optional // busy time of the memory controller, 0 to 1
	Hang        []string // signals
	Verdict     verdict
}

// optional is a number that may be not known.
type optional struct {
	Value float64
	Known bool
}

func known(v float64) optional { return optional{v, true} }

// pointer is nil for what is not known, as JSON wants it.
func (o optional) pointer() *float64 {
	if !o.Known {
		return nil
	}
	return &o.Value
}

// reading is a temperature with its limit, 0 where that is not known. Without a
// sensor there is none.
type reading struct {
	Sensor       string
	Value, Limit float64 // degrees Celsius
}

func (v *vitals) temperature(sensor string, t float64) {
	v.Temperature = reading{Sensor: sensor, Value: t}
}

func (v *vitals) power(w float64) {
	if !v.Power.Known {
		v.Power = known(w)
	}
}
