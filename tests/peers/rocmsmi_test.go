//go:build e2e

package peers

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// values are the values of one GPU: by the key of rocm-smi.
type values map[string]string

// smi runs rocm-smi with the machine's /sys. Its lock is a file in /dev/shm that a process
// which was ended leaves locked.
func smi(t *testing.T, r host.Root, flags ...string) string {
	t.Helper()
	c := exec.Command("unshare", append([]string{"--mount", "sh", "-c",
		`mount --bind "$0" /sys && mount -t tmpfs tmpfs /dev/shm && exec rocm-smi "$@"`, r.Path("/sys")}, flags...)...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	// Its exit status is not 0 when a GPU lacks a value.
	ended := c.Run()
	for _, whole := range []string{`{"`, "No JSON data to report", "End of ROCm SMI Log"} {
		if strings.Contains(out.String()+errs.String(), whole) {
			return out.String()
		}
	}
	require.NoError(t, ended, "rocm-smi %s: %s%s", flags, &out, &errs)
	require.Fail(t, "rocm-smi is silent", "%s: %s%s", flags, &out, &errs)
	return ""
}

// theirs returns what rocm-smi has of each GPU under these flags; "system" is of all.
func theirs(t *testing.T, r host.Root, flags string) map[string]values {
	t.Helper()
	if flags == ras || flags == pages {
		return fromText(smi(t, r, flags))
	}
	all := map[string]values{}
	for line := range strings.Lines(smi(t, r, append(strings.Fields(flags), "--json")...)) {
		if strings.HasPrefix(line, "{") { // missing: none of the GPUs has it
			require.NoError(t, json.Unmarshal([]byte(line), &all), line)
		}
	}
	for _, v := range all {
		maps.DeleteFunc(v, func(_, value string) bool { return value == "N/A" || value == "None" || value == "unsupported" })
	}
	return all
}

var (
	heading  = regexp.MustCompile(`^GPU\[(\d+)\]`)
	errorsOf = regexp.MustCompile(`^\s*(\w+)\s+ENABLED\s+(\d+)\s+(\d+)\s*$`)
	badPage  = regexp.MustCompile(`^\s*0x\w+\s+0x\w+\s+(\w+)\s*$`)
)

// fromText reads the tables of error counters and of pages, and counts the pages.
func fromText(text string) map[string]values {
	all, of := map[string]values{}, values{}
	for line := range strings.Lines(text) {
		if m := heading.FindStringSubmatch(line); m != nil {
			of = values{}
			all["card"+m[1]] = of
		}
		if m := errorsOf.FindStringSubmatch(line); m != nil {
			of[m[1]+" ce"], of[m[1]+" ue"] = m[2], m[3] // 5.2.3 has each under the other's heading
		}
		if m := badPage.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(of[m[1]])
			of[m[1]] = strconv.Itoa(n + 1)
		}
	}
	return all
}

// sample is a series of ours.
type sample struct {
	labels map[string]string
	value  float64
}

func ours(t *testing.T, r host.Root) map[string][]sample {
	t.Helper()
	m := monitor.New(r, monitor.All(r), monitor.Options{})
	m.Poll()
	w := httptest.NewRecorder()
	source := &exporter.Source{Root: r, Version: "e2e", Monitor: m}
	exporter.Handler(source, exporter.MetricOptions{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	require.NoError(t, err)
	all := map[string][]sample{}
	for name, f := range families {
		for _, m := range f.Metric {
			s := sample{map[string]string{}, m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()}
			for _, l := range m.Label {
				s.labels[l.GetName()] = l.GetValue()
			}
			all[name] = append(all[name], s)
		}
	}
	return all
}

// find returns the series of a row for a GPU; false: the exporter has none.
func find(all map[string][]sample, series, pci string) (sample, bool) {
	name, labels, _ := strings.Cut(series, " ")
	for _, s := range all[name] {
		same := s.labels["pci_bus_id"] == pci && (s.labels["instance"] == "" || s.labels["instance"] == "0")
		for _, l := range strings.Fields(labels) {
			k, v, _ := strings.Cut(l, "=")
			same = same && s.labels[k] == v
		}
		if same {
			return s, true
		}
	}
	return sample{}, false
}

// compare fails for a difference that is not in the table, and for a reason there that is
// not needed. It reports whether the two agree.
func compare(t *testing.T, row row, machine, pci, value string, s sample, known bool) bool {
	t.Helper()
	if row.pick != "" {
		m := regexp.MustCompile(row.pick).FindStringSubmatch(value)
		require.NotNil(t, m, "%s of %s: %q", row.key, pci, value)
		value = m[1]
	}
	if row.alike != nil {
		value = row.alike(value)
	}
	same, own := value == s.labels[row.label], s.labels[row.label]
	if row.label == "" {
		number, err := strconv.ParseFloat(value, 64)
		require.NoError(t, err, row.key)
		if row.times != 0 {
			number *= row.times
		}
		same, own = math.Abs(number-s.value) <= row.within+1e-9*number, strconv.FormatFloat(s.value, 'g', -1, 64)
	}
	same = same && known
	if reason := row.except[machine]; reason != "" {
		require.False(t, same, "%s is the same on %s: %q is no longer a reason", row.key, machine, reason)
		return false
	}
	require.True(t, known, "%s: rocm-smi has %s %q, and there is no %s", pci, row.key, value, row.series)
	require.True(t, same, "%s: rocm-smi has %s %q, and %s %s is %q", pci, row.key, value, row.series, row.label, own)
	return true
}

// released returns the version of the package of rocm-smi.
func released(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("dpkg-query", "--show", "--showformat", "${Version}", "rocm-smi").Output()
	if err != nil {
		t.Skip("rocm-smi is not of a Debian package, and its version is not known")
	}
	return string(out)
}

// TestValuesEqualRocmSMIs: a difference is in the table with its reason.
func TestValuesEqualRocmSMIs(t *testing.T) {
	suite.Need(t, suite.Lacks("rocm-smi, util-linux", "rocm-smi", "unshare"))
	if version := released(t); !strings.HasPrefix(version, "5.2.") {
		t.Skipf("the table is of rocm-smi 5.2, this is %s", version)
	}
	if os.Getuid() != 0 {
		t.Skip("a mount namespace needs root")
	}
	compared, done := map[string]int{}, 0 // by row; machines
	for name := range machines {
		t.Run(name, func(t *testing.T) {
			r := machine(t, name)
			all := ours(t, r)
			bus := theirs(t, r, "--showbus")
			require.Len(t, bus, machines[name].gpus)
			got := map[string]map[string]values{}
			for _, row := range rows {
				if got[row.flags] == nil {
					got[row.flags] = theirs(t, r, row.flags)
				}
				for _, card := range slices.Sorted(maps.Keys(bus)) {
					value, has := got[row.flags][card][row.key]
					if !has {
						value, has = got[row.flags]["system"][row.key]
					}
					pci := strings.ToLower(bus[card]["PCI Bus"])
					s, known := find(all, row.series, pci)
					if has && compare(t, row, name, pci, value, s, known) {
						compared[row.key+row.series]++
					}
				}
			}
			done++
			for flags, cards := range got {
				for _, v := range cards {
					for key := range v {
						known := slices.ContainsFunc(rows, func(r row) bool { return r.key == key }) || theirsAlone[key] != ""
						require.True(t, known, "rocm-smi %s has %q, which no row of the table has", flags, key)
					}
				}
			}
		})
	}
	if done == len(machines) { // not with -run of one
		for _, row := range rows {
			require.NotZero(t, compared[row.key+row.series], "on no machine both have: %s, %s", row.key, row.series)
		}
	}
}
