package clockpin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Hold keeps a pin that is its holder's from others, for a look at the GPU; nil where there
// is none. over tells that there is one of somebody who has the GPU no more.
func (p Pins) Hold(name, dir string, holder Holder) (held *Held, over bool, err error) {
	f, stays, _, err := p.open(name, holder)
	if f == nil || err != nil {
		return nil, false, err
	}
	if stays != nil {
		return &Held{*stays, p, f, dir}, false, nil
	}
	defer f.close()
	r, err := f.read()
	return nil, r != nil || err != nil, nil
}

// Held is a pin that stays, whose file nobody else changes.
type Held struct {
	Record
	pins Pins
	file *file
	dir  string
}

// Note writes what became of the record, and ends the right to.
func (h *Held) Note(r Record) error {
	defer h.file.close()
	return h.file.write(h.pins, &r)
}

// Now is the setting of the GPU now.
func (h *Held) Now() (Level, error) { return readLevel(h.dir) }

// Read returns what a GPU's file tells, nil for one that is not pinned, and waits for
// nobody.
func (p Pins) Read(name string) (*Record, error) {
	data, err := os.ReadFile(filepath.Join(p.Dir, name))
	if err != nil || !Plain(name) {
		return nil, err
	}
	r, err := decode(data)
	return r.named(name), err
}

func (r *Record) named(gpu string) *Record {
	if r != nil {
		r.GPU = gpu
	}
	return r
}

// Fixed is the pin of a GPU in this boot, nil for none; it waits for nobody.
func (p Pins) Fixed(name string) (*Record, error) {
	r, err := p.Read(name)
	if r == nil || err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	if boot, err := p.boot(); err != nil || boot != r.Boot {
		return nil, err
	}
	return r, nil
}
