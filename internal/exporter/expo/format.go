package expo

import (
	"strconv"
	"strings"
)

// Format is a wire format.
type Format uint8

// The formats.
const (
	Text Format = iota
	OpenMetrics
)

// ContentType is the HTTP header of a format.
func (f Format) ContentType() string {
	if f == OpenMetrics {
		return "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"
	}
	return "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
}

// Negotiate picks the format that an Accept header likes best; the text format
// where it likes both the same, or says nothing that is known here.
func Negotiate(accept string) Format {
	text, open := 0.0, 0.0
	for part := range strings.SplitSeq(accept, ",") {
		kind, q, params := media(part)
		switch kind {
		case "application/openmetrics-text":
			if v := params["version"]; v == "" || v == "1.0.0" || v == "0.0.1" {
				open = max(open, q)
			}
		case "text/plain":
			if v := params["version"]; v == "" || v == "0.0.4" {
				text = max(text, q)
			}
		case "text/*", "*/*":
			text = max(text, q)
		}
	}
	if open > text {
		return OpenMetrics
	}
	return Text
}

// Gzip reports whether an Accept-Encoding header asks for gzip by its name.
func Gzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		if name, q, _ := media(part); name == "gzip" {
			return q > 0
		}
	}
	return false
}

// media reads one entry of a header: `text/plain;version=0.0.4;q=0.5`.
func media(part string) (name string, q float64, params map[string]string) {
	name, rest, _ := strings.Cut(part, ";")
	name, q = strings.ToLower(strings.TrimSpace(name)), 1
	for p := range strings.SplitSeq(rest, ";") {
		key, value, ok := strings.Cut(p, "=")
		if !ok {
			continue
		}
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.Trim(strings.TrimSpace(value), `"`)
		if key == "q" {
			if v, err := strconv.ParseFloat(value, 64); err == nil && v >= 0 && v <= 1 {
				q = v
			}
			continue
		}
		if params == nil {
			params = map[string]string{}
		}
		params[key] = value
	}
	return name, q, params
}
