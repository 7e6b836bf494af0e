package oci

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// object is one JSON object whose values stay as they were written, so that
// fields this program never heard of and 64-bit numbers survive an edit.
type object map[string]json.RawMessage

func decodeObject(data []byte) (object, error) {
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, fmt.Errorf("it is null, not an object")
	}
	return o, nil
}

// encode writes the object with its keys sorted. Values are not read again:
// they came through decodeObject or set, and scanning them is what costs most.
func (o object) encode() (json.RawMessage, error) {
	size := 2
	for key, value := range o {
		size += len(key) + len(value) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for i, key := range slices.Sorted(maps.Keys(o)) {
		name, err := encode(key)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), o[key]...)
	}
	return append(out, '}'), nil
}

// encode is json.Marshal without turning <, > and & into \u escapes.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func (o object) absent(key string) bool {
	return len(o[key]) == 0 || string(o[key]) == "null"
}

// child returns the object at key, an empty one where there is none.
func (o object) child(key string) (object, error) {
	if o.absent(key) {
		return object{}, nil
	}
	c, err := decodeObject(o[key])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return c, nil
}

// read decodes the value at key into v, which stays as it is where there is none.
func (o object) read(key string, v any) error {
	if o.absent(key) {
		return nil
	}
	if err := json.Unmarshal(o[key], v); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

func (o object) set(key string, v any) error {
	var raw json.RawMessage
	var err error
	if inner, ok := v.(object); ok {
		raw, err = inner.encode()
	} else {
		raw, err = encode(v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	o[key] = raw
	return nil
}

// appendTo puts values at the end of the list at key, after dropping those
// elements that drop wants gone. The order of all others stays.
func appendTo[T any](o object, key string, values []T, drop func(json.RawMessage) bool) error {
	var list []json.RawMessage
	if err := o.read(key, &list); err != nil {
		return err
	}
	list = slices.DeleteFunc(list, drop)
	for _, v := range values {
		raw, err := encode(v)
		if err != nil {
			return err
		}
		list = append(list, raw)
	}
	if len(list) == 0 && o.absent(key) {
		return nil
	}
	return o.set(key, list)
}
