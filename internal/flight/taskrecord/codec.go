package taskrecord

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// A file is a list of frames: the length of the payload and its CRC-32C, four bytes each,
// and the payload. The payload's first byte is the type; the rest is compressed. A kill or
// a power loss leaves at most one incomplete frame, at the end.
const (
	version       = 1
	frameHead     = 'H' // JSON of head
	frameSample   = 'M' // samples of the machine
	frameGPU      = 'G' // samples of a GPU
	frameEvent    = 'E' // JSON of an Event
	frameEvidence = 'P' // JSON of Evidence, which replaces the one before
	frameEnd      = 'Z' // JSON of an End

	prefixSize  = 8
	maxFrame    = 1 << 20  // compressed
	maxInflated = 16 << 20 // of a frame

	// Samples of a record, which readers hold in memory: the recorder has 256 MB.
	maxMachineRows = 100_000 // for six days
	maxGPURows     = 200_000 // of all GPUs; for seven hours with eight
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head is the first frame. It has the names of the counters, so that a later program that
// has others still reads the file.
type head struct {
	Version     int      `json:"format_version"`
	Counters    []string `json:"counters"`
	GPUCounters []string `json:"gpu_counters"`
	Head
}

func newHead(h Head) head { return head{version, Counters[:], GPUCounters[:], h} }

// frame returns the bytes of a frame.
func frame(kind byte, content []byte) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, prefixSize))
	b.WriteByte(kind)
	z, err := flate.NewWriter(&b, flate.BestSpeed)
	if err == nil {
		_, err = z.Write(content)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, err
	}
	out := b.Bytes()
	if len(out)-prefixSize > maxFrame {
		return nil, fmt.Errorf("a frame has %d bytes, more than %d", len(out)-prefixSize, maxFrame)
	}
	binary.LittleEndian.PutUint32(out, uint32(len(out)-prefixSize))
	binary.LittleEndian.PutUint32(out[4:], crc32.Checksum(out[prefixSize:], castagnoli))
	return out, nil
}

func jsonFrame(kind byte, content any) ([]byte, error) {
	data, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return frame(kind, data)
}

// sampleFrame encodes samples by columns: times first, then each counter, as differences.
func sampleFrame(kind byte, gpu string, samples []Sample) ([]byte, error) {
	var out []byte
	out = binary.AppendUvarint(out, uint64(len(gpu)))
	out = append(out, gpu...)
	out = binary.AppendUvarint(out, uint64(len(samples)))
	columns := 0
	if len(samples) > 0 {
		columns = len(samples[0].Values)
	}
	out = binary.AppendUvarint(out, uint64(columns))
	last := int64(0)
	for _, s := range samples {
		out, last = binary.AppendVarint(out, s.At-last), s.At
	}
	for c := range columns {
		last := int64(0)
		for _, s := range samples {
			out, last = binary.AppendVarint(out, s.Values[c]-last), s.Values[c]
		}
	}
	return frame(kind, out)
}

var errDamaged = errors.New("it is damaged")

// numbers reads variable-length integers until one is invalid.
type numbers struct {
	data []byte
	bad  bool
}

func (n *numbers) unsigned(limit uint64) int {
	v, size := binary.Uvarint(n.data)
	if size <= 0 || v > limit {
		n.bad = true
		return 0
	}
	n.data = n.data[size:]
	return int(v)
}

func (n *numbers) signed() int64 {
	v, size := binary.Varint(n.data)
	if size <= 0 {
		n.bad = true
		return 0
	}
	n.data = n.data[size:]
	return v
}

// decodeSamples reads the content of sampleFrame. columns maps the file's columns to the
// program's, with -1 for a counter that it does not have.
func decodeSamples(data []byte, columns []int, have int) (gpu string, out []Sample, err error) {
	n := numbers{data: data}
	size := n.unsigned(64)
	if n.bad || size > len(n.data) {
		return "", nil, errDamaged
	}
	gpu, n.data = string(n.data[:size]), n.data[size:]
	rows, count := n.unsigned(maxGPURows), n.unsigned(1024)
	if n.bad || rows > len(n.data) || count != len(columns) && rows > 0 {
		return "", nil, errDamaged
	}
	out = make([]Sample, rows)
	last := int64(0)
	for i := range out {
		last += n.signed()
		out[i] = Sample{last, slices.Repeat([]int64{Missing}, have)}
	}
	for _, to := range columns {
		last := int64(0)
		for i := range out {
			if last += n.signed(); to >= 0 {
				out[i].Values[to] = last
			}
		}
	}
	if n.bad || len(n.data) > 0 {
		return "", nil, errDamaged
	}
	return gpu, out, nil
}

// segment holds the kind and the content of a frame.
type segment struct {
	kind    byte
	content []byte
}

// nextFrame cuts the first frame off data. ok is false if it is incomplete or damaged.
func nextFrame(data []byte) (s segment, rest []byte, ok bool) {
	if len(data) < prefixSize+1 {
		return s, nil, false
	}
	size := binary.LittleEndian.Uint32(data)
	if size < 1 || size > maxFrame || int(size) > len(data)-prefixSize {
		return s, nil, false
	}
	payload := data[prefixSize : prefixSize+int(size)]
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(data[4:]) {
		return s, nil, false
	}
	content, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(payload[1:])), maxInflated+1))
	if err != nil || len(content) > maxInflated {
		return s, nil, false
	}
	return segment{payload[0], content}, data[prefixSize+int(size):], true
}

// Decode reads a record. It keeps everything before the first damaged frame. The error is
// for a file without a valid beginning, or of a later version.
func Decode(data []byte) (Record, error) {
	r, _, err := decodeValid(data)
	return r, err
}

// decodeValid also returns the number of bytes in valid frames.
func decodeValid(data []byte) (r Record, valid int, err error) {
	d := decoder{Record: Record{GPUs: map[string][]Sample{}}}
	first, rest, ok := nextFrame(data)
	if !ok || first.kind != frameHead {
		return r, 0, errDamaged
	}
	if err := d.head(first.content); err != nil {
		return r, 0, err
	}
	for len(rest) > 0 {
		f, next, ok := nextFrame(rest)
		if !ok || d.add(f.kind, f.content) != nil {
			d.Damaged = true
			break
		}
		rest = next
	}
	return d.Record, len(data) - len(rest), nil
}

// decoder holds a record and the columns of its file.
type decoder struct {
	Record
	machine, gpu []int
	rows         rows
}

// rows counts the samples of a record.
type rows struct{ machine, gpu int }

// add counts more samples. It reports whether the record has room for them.
func (r *rows) add(kind byte, more int) bool {
	count, limit := &r.machine, maxMachineRows
	if kind == frameGPU {
		count, limit = &r.gpu, maxGPURows
	}
	if *count+more > limit {
		*count = limit
		return false
	}
	*count += more
	return true
}

func (d *decoder) head(content []byte) error {
	var h head
	if err := json.Unmarshal(content, &h); err != nil {
		return errDamaged
	}
	if h.Version > version {
		return &rawjson.NewerError{File: "the record", Version: h.Version, Newest: version}
	}
	d.Head = h.Head
	d.machine, d.gpu = columnsOf(h.Counters, Counters[:]), columnsOf(h.GPUCounters, GPUCounters[:])
	return nil
}

func columnsOf(file, have []string) []int {
	out := make([]int, len(file))
	for i, name := range file {
		out[i] = slices.Index(have, name)
	}
	return out
}

// add adds a frame after the first one. It skips a frame of an unknown type, and samples
// beyond the limit of a record.
func (d *decoder) add(kind byte, content []byte) error {
	switch kind {
	case frameSample, frameGPU:
		columns, have := d.machine, int(NumCounters)
		if kind == frameGPU {
			columns, have = d.gpu, int(NumGPUCounters)
		}
		gpu, samples, err := decodeSamples(content, columns, have)
		switch {
		case err != nil:
			return errDamaged
		case !d.rows.add(kind, len(samples)):
		case kind == frameGPU:
			d.GPUs[gpu] = append(d.GPUs[gpu], samples...)
		default:
			d.Machine = append(d.Machine, samples...)
		}
	case frameEvent:
		var e Event
		if err := json.Unmarshal(content, &e); err != nil {
			return err
		}
		d.Events = append(d.Events, e)
	case frameEvidence:
		var e Evidence
		if err := json.Unmarshal(content, &e); err != nil {
			return err
		}
		d.Evidence = e
	case frameHead: // GPUs that were not known before
		return d.head(content)
	case frameEnd:
		var e End
		if err := json.Unmarshal(content, &e); err != nil {
			return err
		}
		d.End = &e
	}
	return nil
}
