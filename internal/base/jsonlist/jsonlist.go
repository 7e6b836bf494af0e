// Package jsonlist decodes lists in the JSON of other machines element by element. So a
// hostile answer takes no more memory than its bytes and the elements that the reader
// accepts. It never keeps an answer.
package jsonlist

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Errors of an answer, which they never quote.
var (
	ErrForm = errors.New("it is not JSON with the expected list")
	ErrRead = errors.New("its connection broke") // wraps the error of the reader
	errNull = fmt.Errorf("%w", ErrForm)
	errMore = errors.New("data follows the first JSON value")
)

// Read passes the elements of the list in r to each, which decodes one element. The first
// error of each ends the reading and is returned. A document of more than most bytes is an
// error, because a cut list must not look complete. An error of r wraps ErrRead.
// null has no elements, as an empty list in Go.
func Read(r io.Reader, most int64, each func(*json.Decoder) error) error {
	return document(r, most, func(d *json.Decoder) error {
		if err := list(d, each); !errors.Is(err, errNull) {
			return err
		}
		return nil
	})
}

// ReadMember works like Read for a list in an object.
func ReadMember(r io.Reader, most int64, name string, each func(*json.Decoder) error) error {
	return document(r, most, func(d *json.Decoder) error {
		if t, err := d.Token(); err != nil || t != json.Delim('{') {
			return ErrForm
		}
		found := false
		for d.More() {
			key, err := d.Token()
			switch {
			case err != nil || key == name && found:
				return ErrForm
			case key == name:
				found = true
				if err := list(d, each); err != nil {
					return err
				}
			case d.Decode(&skipped{}) != nil:
				return ErrForm
			}
		}
		if _, err := d.Token(); err != nil || !found {
			return ErrForm
		}
		return nil
	})
}

func document(r io.Reader, most int64, read func(*json.Decoder) error) error {
	in := &failing{r: r}
	limited := &io.LimitedReader{R: in, N: most + 1}
	d := json.NewDecoder(limited)
	err := read(d)
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errMore
		}
	}
	switch {
	case in.err != nil:
		return fmt.Errorf("%w: %w", ErrRead, in.err)
	case limited.N <= 0:
		return fmt.Errorf("it has more than %d bytes", most)
	}
	return err
}

// failing keeps the error of a reader, which a decoder may not return.
type failing struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

func list(d *json.Decoder, each func(*json.Decoder) error) error {
	switch t, err := d.Token(); {
	case err == nil && t == nil:
		return errNull
	case err != nil || t != json.Delim('['):
		return ErrForm
	}
	for d.More() {
		if err := each(d); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return ErrForm
	}
	return nil
}

// skipped ignores any value.
type skipped struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

// First returns at most the first most elements of a valid list, for methods UnmarshalJSON.
// null has no elements.
func First[T any](data []byte, most int) (out []T, err error) {
	if bytes.Equal(data, []byte("null")) {
		return nil, nil
	}
	out = []T{}
	err = list(json.NewDecoder(bytes.NewReader(data)), func(d *json.Decoder) error {
		if len(out) == most {
			return errEnough
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		out = append(out, one)
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return out, err
}

var errEnough = errors.New("enough")
