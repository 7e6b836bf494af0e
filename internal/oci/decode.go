package oci

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

// settings holds a Config in the form that the wrapper uses.
type settings struct {
	Config
	env       []string // NAME=value, replaces Config.Env, in the order of the file
	rootfsEnv []rootfsEnv
}

// CheckConfig returns the error that the wrapper would report for a config file's content.
// It is for programs that write one.
func CheckConfig(data []byte) error {
	_, err := decodeConfig(data)
	return err
}

// decodeConfig reads a config file's content, fills in the defaults and checks it.
func decodeConfig(data []byte) (*settings, error) {
	doc, err := rawjson.Parse(data)
	if err != nil {
		return nil, err
	}
	if doc.Root().Kind() == rawjson.Object {
		// Before the fields, because a later version may have others.
		if v, err := rawjson.VersionOf(doc.Root()); err != nil {
			return nil, err
		} else if v > ConfigVersion {
			return nil, &rawjson.NewerError{Version: v, Newest: ConfigVersion}
		}
	}
	c := new(settings)
	var invalid []string
	err = eachField(doc.Root(), func(key string, v rawjson.Value) (err error) {
		switch key { // both in the order of the file, which a map does not have
		case "env":
			c.env, invalid, err = decodePairs(v)
		case "rootfs_env":
			c.rootfsEnv, err = decodeRootfsEnv(v)
		case rawjson.VersionKey:
		default:
			err = decodeConfigField(&c.Config, key, v)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(invalid) > 0 {
		return nil, fmt.Errorf("env: %q can't be set as an environment variable", invalid[0])
	}
	c.setDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

var errUnknownField = errors.New("this version of the wrapper does not support it")

// eachField calls each for the members of an object and refuses a name that occurs twice.
func eachField(v rawjson.Value, each func(string, rawjson.Value) error) error {
	if v.Kind() != rawjson.Object {
		return fmt.Errorf("it is %s, not an object", v.Kind())
	}
	var seen []string
	for key, member := range v.Members() {
		if slices.Contains(seen, key) {
			return fmt.Errorf("%q is duplicate", key)
		}
		seen = append(seen, key)
		if err := each(key, member); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
	}
	return nil
}

// fieldDecoder decodes one field of a struct. fields.go has one for each struct.
type fieldDecoder[T any] func(to *T, key string, v rawjson.Value) error

// decodeStruct returns nil for a missing object.
func decodeStruct[T any](v rawjson.Value, field fieldDecoder[T]) (*T, error) {
	if v.None() {
		return nil, nil
	}
	to := new(T)
	return to, eachField(v, func(key string, v rawjson.Value) error { return field(to, key, v) })
}

func decodeStructs[T any](v rawjson.Value, field fieldDecoder[T]) ([]T, error) {
	if err := v.As(rawjson.Array); err != nil {
		return nil, err
	}
	var list []T
	if n := v.Len(); n > 0 {
		list = make([]T, 0, n)
	}
	for e := range v.Elements() {
		var one T
		if err := eachField(e, func(key string, v rawjson.Value) error { return field(&one, key, v) }); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

func decodeString[S ~string](v rawjson.Value) (S, error) { return S(v.Text()), v.As(rawjson.String) }

func decodeStrings(v rawjson.Value) (list []string, err error) {
	if err := v.As(rawjson.Array); err != nil {
		return nil, err
	}
	for e := range v.Elements() {
		if e.Kind() != rawjson.String {
			return nil, fmt.Errorf("one of them is %s, not a string", e.Kind())
		}
		list = append(list, e.Text())
	}
	return list, nil
}

// decodePairs returns the members of an object of strings as NAME=value, and the names that
// cannot be environment variables.
func decodePairs(v rawjson.Value) (list, invalid []string, err error) {
	if v.None() {
		return nil, nil, nil
	}
	err = eachField(v, func(key string, v rawjson.Value) error {
		if v.Kind() != rawjson.String {
			return fmt.Errorf("it is %s, not a string", v.Kind())
		}
		if !isEnvName(key) || strings.IndexByte(v.Text(), 0) >= 0 {
			invalid = append(invalid, key)
		}
		list = append(list, key+"="+v.Text())
		return nil
	})
	return list, invalid, err
}

// decodeRuntime reads only the real runc's path and ignores all other problems, because a
// call such as `delete --force` must pass with a config that create refuses.
func decodeRuntime(data []byte) (string, error) {
	doc, err := rawjson.Parse(data)
	if err != nil {
		return "", err
	}
	return doc.Root().StringOf("runtime")
}

func decodeMatrix(v rawjson.Value) (rows [][]int, err error) {
	if err := v.As(rawjson.Array); err != nil {
		return nil, err
	}
	for r := range v.Elements() {
		if r.Kind() != rawjson.Array {
			return nil, fmt.Errorf("row %d: it is %s, not a list", len(rows), r.Kind())
		}
		row := make([]int, 0, r.Len())
		for e := range r.Elements() {
			n, err := e.Whole(MaxLink)
			if err != nil {
				return nil, fmt.Errorf("row %d: %w", len(rows), err)
			}
			row = append(row, int(n))
		}
		rows = append(rows, row)
	}
	return rows, nil
}
