package taskrecord

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// A file is a list of gzip members. Each has one part as a line of JSON, so zcat shows the
// record. A kill or a power loss leaves at most one incomplete member, at the end.
const (
	version = 1
	maxPart = 4 << 20 // uncompressed

	// Samples of a record, which readers hold in memory: the recorder has 256 MB.
	maxMachineRows = 100_000 // for six days
	maxGPURows     = 200_000 // of all GPUs; for seven hours with eight
)

// part is one of these. Later programs may write others, which are skipped.
type part struct {
	Head     *head     `json:"head,omitempty"`
	GPU      string    `json:"gpu,omitempty"`     // of Samples; "" for samples of the machine
	Samples  [][]int64 `json:"samples,omitempty"` // each has its time first
	Event    *Event    `json:"event,omitempty"`
	Evidence *Evidence `json:"evidence,omitempty"` // replaces the one before
	End      *End      `json:"end,omitempty"`
}

// head is the first part. It has the names of the counters, so that a later program that
// has others still reads the file.
type head struct {
	Version     int      `json:"format_version"`
	Counters    []string `json:"counters"`
	GPUCounters []string `json:"gpu_counters"`
	Head
}

func newHead(h Head) part { return part{Head: &head{version, Counters[:], GPUCounters[:], h}} }

func newSamples(gpu string, samples []Sample) part {
	p := part{GPU: gpu, Samples: make([][]int64, len(samples))}
	for i, s := range samples {
		p.Samples[i] = append([]int64{s.At}, s.Values...)
	}
	return p
}

// encode returns the bytes of a part in a file.
func (p part) encode() ([]byte, error) {
	line, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	line = append(line, '\n')
	if len(line) > maxPart {
		return nil, fmt.Errorf("a part has %d bytes, more than %d", len(line), maxPart)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(line)
	err = errors.Join(err, z.Close())
	return b.Bytes(), err
}

var errDamaged = errors.New("it is damaged")

// Decode reads a record. It keeps everything before the first damaged part. The error is
// for a file without a valid beginning, or of a later version.
func Decode(data []byte) (Record, error) {
	r, _, err := decodeValid(data)
	return r, err
}

// decodeValid also returns the number of bytes in valid parts.
func decodeValid(data []byte) (r Record, valid int, err error) {
	d := decoder{Record: Record{GPUs: map[string][]Sample{}}}
	in := bytes.NewReader(data)
	for in.Len() > 0 {
		p, err := d.next(in)
		if err == nil && valid == 0 && p.Head == nil {
			err = errDamaged
		}
		if err == nil {
			err = d.add(p)
		}
		if err != nil && valid == 0 {
			return r, 0, err
		}
		if err != nil {
			d.Damaged = true
			break
		}
		valid = len(data) - in.Len()
	}
	if valid == 0 {
		return r, 0, errDamaged
	}
	return d.Record, valid, nil
}

// decoder holds a record and the columns of its file.
type decoder struct {
	Record
	zip          gzip.Reader
	machine, gpu []int
	rows         rows
}

// next reads the next part and nothing beyond it.
func (d *decoder) next(in *bytes.Reader) (p part, err error) {
	if d.zip.Reset(in) != nil {
		return p, errDamaged
	}
	d.zip.Multistream(false)
	line, err := io.ReadAll(io.LimitReader(&d.zip, maxPart+1))
	if err != nil || len(line) > maxPart || json.Unmarshal(line, &p) != nil {
		return p, errDamaged
	}
	return p, nil
}

// rows counts the samples of a record.
type rows struct{ machine, gpu int }

// add counts more samples of the machine, or of a GPU with its name. It reports whether the
// record has room for them.
func (r *rows) add(gpu string, more int) bool {
	count, limit := &r.machine, maxMachineRows
	if gpu != "" {
		count, limit = &r.gpu, maxGPURows
	}
	if *count+more > limit {
		*count = limit
		return false
	}
	*count += more
	return true
}

// add adds a part. It skips samples beyond the limit of a record.
func (d *decoder) add(p part) error {
	if h := p.Head; h != nil { // a second one has GPUs that were not known before
		if h.Version > version {
			return &rawjson.NewerError{File: "the record", Version: h.Version, Newest: version}
		}
		d.Head = h.Head
		d.machine, d.gpu = columnsOf(h.Counters, Counters[:]), columnsOf(h.GPUCounters, GPUCounters[:])
	}
	if p.Event != nil {
		d.Events = append(d.Events, *p.Event)
	}
	if p.Evidence != nil {
		d.Evidence = *p.Evidence
	}
	if p.End != nil {
		d.End = p.End
	}
	columns, have := d.machine, int(NumCounters)
	if p.GPU != "" {
		columns, have = d.gpu, int(NumGPUCounters)
	}
	samples, err := decodeSamples(p.Samples, columns, have)
	switch {
	case err != nil || len(samples) == 0 || !d.rows.add(p.GPU, len(samples)):
	case p.GPU != "":
		d.GPUs[p.GPU] = append(d.GPUs[p.GPU], samples...)
	default:
		d.Machine = append(d.Machine, samples...)
	}
	return err
}

// decodeSamples reads the rows of newSamples. columns maps the file's columns to the
// program's, with -1 for a counter that it does not have.
func decodeSamples(rows [][]int64, columns []int, have int) ([]Sample, error) {
	out := make([]Sample, len(rows))
	for i, row := range rows {
		if len(row) != 1+len(columns) {
			return nil, errDamaged
		}
		out[i] = Sample{row[0], slices.Repeat([]int64{Missing}, have)}
		for c, to := range columns {
			if to >= 0 {
				out[i].Values[to] = row[1+c]
			}
		}
	}
	return out, nil
}

func columnsOf(file, have []string) []int {
	out := make([]int, len(file))
	for i, name := range file {
		out[i] = slices.Index(have, name)
	}
	return out
}
